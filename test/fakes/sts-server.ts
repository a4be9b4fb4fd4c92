// The fake STS on a loopback port, for whatever speaks HTTP to it. Node only.

import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
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
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}
