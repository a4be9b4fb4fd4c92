// The routes of the control plane. A route reads its request within bounds, calls a step of `enrollment/` and renders
// the outcome. It decides nothing.

import { HonoBase } from 'hono/hono-base'
import {
  BUNDLE_PATH,
  BUNDLE_PEM_PATH,
  CONNECT_ENROLL_PATH,
  ENROLL_PATH,
  HEALTHZ_PATH,
  READYZ_PATH,
  TUNNEL_CHALLENGE_PATH,
  TUNNEL_PATH,
} from '../../protocol/paths.ts'
import type { Clock } from '../../protocol/time.ts'
import { spiffeBundle, trustBundlePem } from '../ca/bundle.ts'
import type { Dependencies } from '../enrollment/dependencies.ts'
import { enroll } from '../enrollment/enroll.ts'
import { recordBug } from '../enrollment/event.ts'
import { readiness } from '../enrollment/readiness.ts'
import { isStorageOutage } from '../store/db.ts'
import { HTTPS_ONLY, readJsonBody } from './bounds.ts'
import { serveConnect } from './connect.ts'
import { type Context, callerOf } from './context.ts'
import { ExactRouter } from './exact-router.ts'
import { renderJson, renderRefusal, renderText } from './render.ts'
import { addTunnelRoutes } from './tunnel.ts'

export interface AppOptions {
  /** `muster dev` alone: plain http on loopback. */
  readonly plainHttp: boolean
}

const ABOUT = `Muster: enrollment and certificate authority for a fleet of runners.

POST ${ENROLL_PATH}      a runner proves where it runs and gets its certificate
GET  ${TUNNEL_PATH}      a runner connects with it
GET  ${BUNDLE_PATH}      the trust bundle (SPIFFE); ${BUNDLE_PEM_PATH} as PEM
GET  ${READYZ_PATH}          whether this control plane can serve

The documentation is README.md and docs/ of the sources that it was deployed from.
`

/** The methods of every path: with another one the answer is 405 (RFC 9110 §15.5.6). HEAD is GET without a body. */
const ALLOWED: Readonly<Record<string, string>> = {
  '/': 'GET, HEAD',
  [HEALTHZ_PATH]: 'GET, HEAD',
  [READYZ_PATH]: 'GET, HEAD',
  [BUNDLE_PATH]: 'GET, HEAD',
  [BUNDLE_PEM_PATH]: 'GET, HEAD',
  [TUNNEL_PATH]: 'GET',
  [TUNNEL_CHALLENGE_PATH]: 'POST',
  [ENROLL_PATH]: 'POST',
  [CONNECT_ENROLL_PATH]: 'POST',
}

/** What `makeApp` makes. */
export interface App<E> {
  readonly fetch: (request: Request, env: E, context: ExecutionContext) => Response | Promise<Response>
}

/** `dependenciesOf` is called in the routes that need it, so where it throws the answer is a problem document, too. */
export function makeApp<E>(dependenciesOf: (env: E) => Dependencies, clock: Clock, options: AppOptions): App<E> {
  // Hono's own routers find patterns, which costs ten times as much; some take a path with one more slash at its end.
  const app = new HonoBase<Context>({ router: new ExactRouter() })

  app.get('/', (c) => renderText(c.env.caller, 'text/plain; charset=utf-8', ABOUT))
  app.get(HEALTHZ_PATH, (c) => renderJson(c.env.caller, { status: 'ok' }))
  app.get(READYZ_PATH, async (c) => {
    const ready = await readiness(c.env.deps)
    return renderJson(c.env.caller, ready, ready.ready ? 200 : 503)
  })

  // The URL of a request is in its normal form.
  const isPlain = (url: string): boolean => url.startsWith('http:') && !options.plainHttp

  app.post(CONNECT_ENROLL_PATH, (c) => serveConnect(c.req.raw, c.env.deps, c.env.caller, isPlain(c.req.url)))
  app.post(ENROLL_PATH, async (c) => {
    const { deps, caller } = c.env
    const body = isPlain(c.req.url) ? HTTPS_ONLY : await readJsonBody(c.req.raw)
    const result = await enroll(deps, caller, body)
    return result.ok ? renderJson(caller, result.value) : renderRefusal(caller, result.error)
  })

  addTunnelRoutes(app, isPlain)

  app.get(BUNDLE_PATH, async (c) => {
    const { deps, caller } = c.env
    const authority = await deps.authority()
    if (!authority.ok) return renderRefusal(caller, authority.error)
    return renderJson(caller, spiffeBundle(authority.value, await deps.bundleSequence(authority.value)))
  })
  app.get(BUNDLE_PEM_PATH, async (c) => {
    const authority = await c.env.deps.authority()
    return authority.ok
      ? renderText(c.env.caller, 'application/pem-certificate-chain', trustBundlePem(authority.value))
      : renderRefusal(c.env.caller, authority.error)
  })

  for (const [path, allow] of Object.entries(ALLOWED)) {
    app.all(path, (c) => {
      const response = renderRefusal(c.env.caller, { reason: 'method_unknown', detail: `this address takes ${allow}` })
      response.headers.set('allow', allow)
      return response
    })
  }
  app.all('*', (c) => renderRefusal(c.env.caller, { reason: 'route_unknown' }))
  app.onError((error, c) => {
    recordBug(c.env.caller, error)
    return renderRefusal(c.env.caller, { reason: isStorageOutage(error) ? 'storage_unavailable' : 'internal' })
  })
  return {
    fetch: (request, env, context) => {
      const caller = callerOf(request, clock, (work) => context.waitUntil(work))
      return app.fetch(request, {
        caller,
        get deps() {
          return dependenciesOf(env)
        },
      })
    },
  }
}
