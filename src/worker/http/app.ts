// The routes of the control plane. A route reads its request within bounds, calls a step of `enrollment/` and renders
// the outcome. It decides nothing.

import { HonoBase } from 'hono/hono-base'
import { TrieRouter } from 'hono/router/trie-router'
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

/** `dependenciesOf` is called once a request. */
export function makeApp<E extends object>(
  dependenciesOf: (env: E) => Dependencies,
  clock: Clock,
  options: AppOptions,
): HonoBase<Context & { Bindings: E }> {
  // A dozen fixed paths. Hono's other routers are larger, or take a path with one more slash at its end.
  const app = new HonoBase<Context & { Bindings: E }>({ router: new TrieRouter() })

  app.use(async (c, next) => {
    c.set(
      'caller',
      callerOf(c.req.raw, clock, (work) => c.executionCtx.waitUntil(work)),
    )
    c.set('deps', dependenciesOf(c.env))
    await next()
  })

  app.get('/', (c) => renderText(c.var.caller, 'text/plain; charset=utf-8', ABOUT))
  app.get(HEALTHZ_PATH, (c) => renderJson(c.var.caller, { status: 'ok' }))
  app.get(READYZ_PATH, async (c) => {
    const ready = await readiness(c.var.deps)
    return renderJson(c.var.caller, ready, ready.ready ? 200 : 503)
  })

  const isPlain = (url: string): boolean => new URL(url).protocol === 'http:' && !options.plainHttp

  app.post(CONNECT_ENROLL_PATH, (c) => serveConnect(c.req.raw, c.var.deps, c.var.caller, isPlain(c.req.url)))
  app.post(ENROLL_PATH, async (c) => {
    const { deps, caller } = c.var
    const body = isPlain(c.req.url) ? HTTPS_ONLY : await readJsonBody(c.req.raw)
    const result = await enroll(deps, caller, body)
    return result.ok ? renderJson(caller, result.value) : renderRefusal(caller, result.error)
  })

  addTunnelRoutes(app, isPlain)

  app.get(BUNDLE_PATH, async (c) => {
    const { deps, caller } = c.var
    const authority = await deps.authority()
    if (!authority.ok) return renderRefusal(caller, authority.error)
    return renderJson(caller, spiffeBundle(authority.value, await deps.bundleSequence(authority.value)))
  })
  app.get(BUNDLE_PEM_PATH, async (c) => {
    const authority = await c.var.deps.authority()
    return authority.ok
      ? renderText(c.var.caller, 'application/pem-certificate-chain', trustBundlePem(authority.value))
      : renderRefusal(c.var.caller, authority.error)
  })

  for (const [path, allow] of Object.entries(ALLOWED)) {
    app.all(path, (c) => {
      const response = renderRefusal(c.var.caller, { reason: 'method_unknown', detail: `this address takes ${allow}` })
      response.headers.set('allow', allow)
      return response
    })
  }
  app.notFound((c) => renderRefusal(c.var.caller, { reason: 'route_unknown' }))
  app.onError((error, c) => {
    recordBug(c.var.caller, error)
    return renderRefusal(c.var.caller, { reason: isStorageOutage(error) ? 'storage_unavailable' : 'internal' })
  })
  return app
}
