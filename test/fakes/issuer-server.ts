// Serves the fake issuer over HTTP on loopback, for tests that use the network. Node only.
import { createServer } from 'node:http'
import { gzipSync } from 'node:zlib'
import { closeServer, listen } from '../../src/node/server.ts'
import type { FakeIssuer } from './issuer.ts'

export interface IssuerServer {
  /** Where it listens: what `muster dev --outbound HOST=URL` takes. */
  readonly url: string
  readonly close: () => Promise<void>
}

/** Answers for the issuer's own host, whatever host the request names. `gzip` compresses where the client allows it. */
export async function serveIssuer(fake: FakeIssuer, options: { readonly gzip?: boolean } = {}): Promise<IssuerServer> {
  const { origin } = new URL(fake.issuer)
  const server = createServer((request, response) => {
    const headers = Object.entries(request.headers).map(([name, value]): [string, string] => [name, String(value)])
    fake
      .fetch(origin + (request.url ?? '/'), { headers })
      .then(async (answer) => {
        const body = Buffer.from(await answer.arrayBuffer())
        const zipped = options.gzip && String(request.headers['accept-encoding']).includes('gzip')
        const kept = Object.fromEntries(answer.headers)
        response.writeHead(answer.status, zipped ? { ...kept, 'content-encoding': 'gzip' } : kept)
        response.end(zipped ? gzipSync(body) : body)
      })
      .catch(() => request.socket.destroy())
  })
  const port = await listen(server, 0, '127.0.0.1')
  return { url: `http://127.0.0.1:${port}`, close: () => closeServer(server) }
}
