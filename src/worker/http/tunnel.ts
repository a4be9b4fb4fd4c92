// The routes of the tunnel: the WebSocket upgrade, and the challenge that a client signs for it.

import type { HonoBase } from 'hono/hono-base'
import { TUNNEL_CHALLENGE_PATH, TUNNEL_PATH } from '../../protocol/paths.ts'
import { type Outcome, refuse } from '../../protocol/refusals.ts'
import { ok } from '../../protocol/result.ts'
import { toEpochSeconds } from '../../protocol/time.ts'
import { CLIENT_CERT_HEADER, PROOF_HEADER } from '../../protocol/tunnel.ts'
import { makeChallenge } from '../enrollment/challenge.ts'
import { openTunnel, type UpgradeRequest } from '../enrollment/open-tunnel.ts'
import { HTTPS_ONLY } from './bounds.ts'
import type { Context } from './context.ts'
import { renderJson, renderRefusal, renderSocket } from './render.ts'

/** `isPlain`: whether a URL is plain http where only https is served. */
export function addTunnelRoutes(app: HonoBase<Context>, isPlain: (url: string) => boolean): void {
  app.get(TUNNEL_PATH, async (c) => {
    const { deps, caller } = c.env
    const result = await openTunnel(deps, caller, isPlain(c.req.url) ? HTTPS_ONLY : readUpgrade(c.req.raw))
    return result.ok ? renderSocket(caller, result.value) : renderRefusal(caller, result.error)
  })

  app.post(TUNNEL_CHALLENGE_PATH, async (c) => {
    const { deps, caller } = c.env
    if (isPlain(c.req.url)) return renderRefusal(caller, HTTPS_ONLY.error)
    const key = await deps.challengeKey()
    if (!key.ok) return renderRefusal(caller, key.error)
    return renderJson(caller, await makeChallenge(key.value, toEpochSeconds(caller.at)))
  })
}

function readUpgrade(request: Request): Outcome<UpgradeRequest> {
  const { headers } = request
  if (headers.get('upgrade')?.toLowerCase() !== 'websocket') {
    return refuse('body_malformed', { detail: 'this address takes WebSocket upgrades' })
  }
  return ok({
    host: new URL(request.url).host,
    earlyData: headers.get('early-data'),
    tlsCertificate: tlsCertificateOf(request),
    clientCert: headers.get(CLIENT_CERT_HEADER),
    proof: headers.get(PROOF_HEADER),
  })
}

/** In the form of RFC 9440. Empty for one that is too large for the edge to pass on; null for none. */
function tlsCertificateOf({ cf }: Request): string | null {
  const client = cf?.tlsClientAuth
  if (typeof client !== 'object' || client === null) return null
  if ('certRFC9440TooLarge' in client && client.certRFC9440TooLarge === true) return ''
  const certificate = 'certRFC9440' in client ? client.certRFC9440 : null
  return typeof certificate === 'string' && certificate !== '' ? certificate : null
}
