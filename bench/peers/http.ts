// Posts JSON over a connection of its own, as a caller does that asks once, or over one that is kept.

import { Client } from 'undici'

/** PEM. A connection shows `cert` where it has one. */
export interface Tls {
  readonly ca: string
  readonly cert?: string
  readonly key?: string
}

/** Nothing is remembered from one connection to the next, so each one has a whole handshake. */
export const connect = (origin: string, tls?: Tls): Client =>
  new Client(origin, { pipelining: 1, keepAliveTimeout: 60_000, connect: { ...tls, maxCachedSessions: 0 } })

export async function fresh<T>(origin: string, tls: Tls | undefined, work: (client: Client) => Promise<T>): Promise<T> {
  const client = connect(origin, tls)
  try {
    return await work(client)
  } finally {
    await client.destroy()
  }
}

/** Throws with the answer where its status is not 2xx. Gives the body. */
export async function post(
  client: Client,
  path: string,
  body: string,
  headers: Readonly<Record<string, string>> = {},
): Promise<string> {
  const all = { 'content-type': 'application/json', ...headers }
  const answer = await client.request({ method: 'POST', path, body, headers: all })
  const text = await answer.body.text()
  if (answer.statusCode < 200 || answer.statusCode > 299)
    throw new Error(`${path}: ${answer.statusCode} ${text.trim()}`)
  return text
}
