// Serves the health checks: /healthz while the process runs, /readyz only with a live certificate and an open tunnel.

import { http } from '../../node/http-module.ts'
import { closeServer, listen } from '../../node/server.ts'
import { HEALTHZ_PATH, READYZ_PATH } from '../../protocol/paths.ts'

export interface Health {
  readonly port: number
  readonly close: () => Promise<void>
}

/** `unready` says what is missing, or null. Rejects where the port cannot be listened on. */
export async function serveHealth(port: number, unready: () => string | null): Promise<Health> {
  const server = http.createServer({ requestTimeout: 5000, keepAlive: false }, (request, response) => {
    const answer = (status: number, body: object): void => {
      response.writeHead(status, {
        'content-type': 'application/json',
        'cache-control': 'no-store',
        connection: 'close',
      })
      response.end(request.method === 'HEAD' ? undefined : `${JSON.stringify(body)}\n`)
    }
    if (request.method !== 'GET' && request.method !== 'HEAD') return answer(405, {})
    const missing = unready()
    if (request.url === HEALTHZ_PATH) return answer(200, { alive: true })
    if (request.url === READYZ_PATH) return answer(missing === null ? 200 : 503, { ready: missing === null, missing })
    return answer(404, {})
  })
  // On every address: probes come from the node, not from this machine.
  return { port: await listen(server, port), close: () => closeServer(server) }
}
