// A local edge whose Worker echoes each request, and requests to its ports. Not a test itself.
import { readFileSync } from 'node:fs'
import { request as httpRequest } from 'node:http'
import { request as httpsRequest } from 'node:https'
import { join } from 'node:path'
import { type Edge, startEdge } from '../../../src/cli/edge/start.ts'
import { trustOf } from '../../end-to-end/edge.ts'
import { closeInTheEnd, PROJECT } from '../../end-to-end/processes.ts'

export interface EchoEdge extends Edge {
  readonly ca: Buffer
  readonly send: (base: string, sent?: Sent) => Promise<Answer>
  /** What reached the Worker. */
  readonly reach: (base: string, sent?: Sent) => Promise<Reached>
}

export interface Reached {
  readonly url: string
  readonly method: string
  readonly headers: Record<string, string>
  readonly cf: Record<string, unknown> & { tlsClientAuth: Record<string, unknown> }
  readonly variables: Record<string, string>
  readonly ran: string[]
}

export interface Sent {
  readonly path?: string
  readonly method?: string
  readonly headers?: Record<string, string>
  readonly body?: Uint8Array
  readonly key?: string
  readonly cert?: string
}

export interface Answer {
  readonly status: number
  readonly headers: Record<string, string | string[] | undefined>
  readonly body: string
}

/** It ends with the test file. */
export async function startEchoEdge(persistTo: string): Promise<EchoEdge> {
  const edge = await startEdge({
    port: 0,
    tlsPort: 0,
    persistTo,
    trust: trustOf(),
    variables: { LINES: 'one\ntwo' },
    origins: new Map(),
    rateLimits: false,
    log: () => {},
    entry: join(PROJECT, 'test/cli/edge/echo-worker.ts'),
  })
  closeInTheEnd(edge.stop)
  const ca = readFileSync(edge.caFile)
  const send = (base: string, sent: Sent = {}) => request(base, ca, sent)
  return { ...edge, ca, send, reach: async (base, sent) => JSON.parse((await send(base, sent)).body) }
}

function request(base: string, ca: Buffer, sent: Sent): Promise<Answer> {
  const { path = '/', method = 'GET', headers = {}, body, ...client } = sent
  const url = new URL(path, base)
  const ask = url.protocol === 'https:' ? httpsRequest : httpRequest
  return new Promise((resolve, reject) => {
    const outgoing = ask(
      url,
      { method, headers, ca, agent: false, servername: 'localhost', ...client },
      async (incoming) => {
        const chunks: Buffer[] = []
        for await (const chunk of incoming) chunks.push(chunk)
        resolve({ status: incoming.statusCode ?? 0, headers: incoming.headers, body: Buffer.concat(chunks).toString() })
      },
    )
    outgoing.on('error', reject)
    outgoing.end(body)
  })
}
