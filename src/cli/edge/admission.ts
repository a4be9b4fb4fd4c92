// Decides which requests the ports of the local edge take: those for this machine by name, and none of another site's page.

import type { IncomingMessage } from 'node:http'
import { isLoopback } from '../../node/proxy-rules.ts'
import { SCHEDULED_PATH } from '../../protocol/paths.ts'
import { err, ok, type Result } from '../../protocol/result.ts'
import type { Scheme } from './cf.ts'

/** RFC 9457. It has no `code`: nothing here is a decision of the control plane. */
export interface EdgeProblem {
  readonly type: 'about:blank'
  readonly title: string
  readonly status: 400 | 403 | 421
  readonly detail: string
}

/** The URL of the request, for the Worker; the error is what the client is told. */
export function admit(request: IncomingMessage, scheme: Scheme): Result<string, EdgeProblem> {
  const host = hostOf(request)
  if (host === null) return err(problem(400, 'Bad Request', 'Host is not one host name'))
  // A web page whose host name resolves to 127.0.0.1 (DNS rebinding) could read the answers. Its Host shows that name.
  const { hostname, origin } = new URL(`${scheme}://${host}`)
  if (!isLoopback(hostname)) {
    const detail = `muster dev answers to localhost and 127.0.0.1 alone, not to ${hostname}`
    return err(problem(421, 'Misdirected Request', detail))
  }
  const path = pathOf(request.url ?? '', host)
  if (path === null) return err(problem(400, 'Bad Request', 'the request target is neither a path nor a URL of Host'))
  if (isOfAnotherSite(request, origin, path)) {
    return err(problem(403, 'Forbidden', 'muster dev takes no request that a page of another site makes'))
  }
  return ok(`${origin}${path}`)
}

const problem = (status: EdgeProblem['status'], title: string, detail: string): EdgeProblem => ({
  type: 'about:blank',
  title,
  status,
  detail,
})

/**
 * Exactly one, of a host and a port alone (RFC 9112 §3.2): workerd answers 500 where the URL of a request cannot be
 * made, and takes what follows a `/`, `?` or `#` in Host for the path.
 */
function hostOf({ headersDistinct }: IncomingMessage): string | null {
  const [host = '', second] = headersDistinct.host ?? []
  return second === undefined && !/[\s/?#@\\]/.test(host) && URL.canParse(`http://${host}`) ? host : null
}

/** RFC 9112 §3.2.2: a whole URL counts in place of Host, so here it must name the same host. */
function pathOf(target: string, host: string): string | null {
  if (target.startsWith('/')) return target
  const [, authority, path = ''] = /^https?:\/\/([^/?#]*)([^#]*)$/i.exec(target) ?? []
  if (authority?.toLowerCase() !== host.toLowerCase()) return null
  return path.startsWith('/') ? path : `/${path}`
}

/**
 * Browsers say which site makes a request: in Sec-Fetch-Site, in Origin, or in older browsers in Referer alone. A link
 * from another site is allowed, except to the cron jobs, which it would run. Other clients send none of these headers.
 */
function isOfAnotherSite({ method, headers }: IncomingMessage, own: string, path: string): boolean {
  const runsCrons = new URL(`http://localhost${path}`).pathname === SCHEDULED_PATH
  const isLink =
    method === 'GET' && headers['sec-fetch-mode'] === 'navigate' && headers['sec-fetch-dest'] === 'document'
  if (isLink && !runsCrons) return false
  const { 'sec-fetch-site': site, origin, referer } = headers
  if (site !== undefined && site !== 'none' && site !== 'same-origin') return true
  const page = origin ?? referer
  return page !== undefined && URL.parse(page)?.origin !== own
}
