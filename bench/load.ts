// Sends prepared requests over a number of connections and takes the time of each.

import { Client } from 'undici'

/** One request, ready to be sent. */
export interface Shot {
  readonly method: 'GET' | 'POST'
  readonly path: string
  /** Made as it is sent, since a renewal carries the certificate of the answer before. */
  readonly body: () => string
  readonly answered?: (body: string) => void
}

export interface Load {
  /** Milliseconds, in the order of the answers. */
  readonly latencies: readonly number[]
  /** Milliseconds from the first request to the last answer. */
  readonly wall: number
}

/** Request `i` goes over connection `i % connections`, so what must be in order lies that many apart. */
export async function send(
  url: string,
  shots: readonly Shot[],
  { connections, status }: { readonly connections: number; readonly status: number },
): Promise<Load> {
  const latencies: number[] = []
  const from = performance.now()
  await Promise.all(
    Array.from({ length: Math.min(connections, shots.length) }, async (_, lane) => {
      const client = new Client(url, { pipelining: 1, keepAliveTimeout: 60_000 })
      try {
        for (let i = lane; i < shots.length; i += connections) {
          const shot = shots[i]
          if (shot !== undefined) latencies.push(await sendOne(client, shot, status))
        }
      } finally {
        await client.destroy()
      }
    }),
  )
  return { latencies, wall: performance.now() - from }
}

async function sendOne(client: Client, { method, path, body, answered }: Shot, status: number): Promise<number> {
  const isPost = method === 'POST'
  const headers = isPost ? { 'content-type': 'application/json' } : {}
  const text = isPost ? body() : null
  const from = performance.now()
  const answer = await client.request({ method, path, body: text, headers })
  const said = await answer.body.text()
  const took = performance.now() - from
  if (answer.statusCode !== status) throw new Error(`${method} ${path} was answered ${answer.statusCode}: ${said}`)
  answered?.(said)
  return took
}
