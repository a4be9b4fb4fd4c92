// Serves the fake STS over HTTP on loopback. Node only.

import { createServer } from 'node:http'
import { closeServer, listen } from '../../src/node/server.ts'
import type { FakeSts } from './sts.ts'

export interface StsServer {
  readonly url: string
  readonly close: () => Promise<void>
}

export async function serveSts(sts: FakeSts, port = 0): Promise<StsServer> {
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk)
    const headers = request.rawHeaders.flatMap((name, i, all) => (i % 2 ? [] : [[name, all[i + 1] ?? ''] as const]))
    const { method = '', url = '' } = request
    const answer = await sts.answer({ method, target: url, headers, body: Buffer.concat(chunks).toString('latin1') })
    if (answer.stall === 'before') return
    response.writeHead(answer.status, answer.headers)
    if (answer.stall === 'within') response.write(answer.body)
    else response.end(answer.body)
  })
  const bound = await listen(server, port, '127.0.0.1')
  return { url: `http://127.0.0.1:${bound}`, close: () => closeServer(server) }
}
