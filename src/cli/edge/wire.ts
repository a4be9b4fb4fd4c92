// How a command reaches the D1 of an edge that runs: workerd waits for no other writer, so the edge writes for it.

import { randomBytes, timingSafeEqual } from 'node:crypto'
import { readFileSync, rmSync } from 'node:fs'
import { createServer, type IncomingMessage } from 'node:http'
import { join } from 'node:path'
import type { Miniflare } from 'miniflare'
import { type StateFolder, writeWhole } from './state.ts'
import { listen } from './terminator.ts'

export interface Query {
  readonly sql: string
  readonly params: readonly unknown[]
}
/** Values of each row in the order of the columns. */
export type Rows = unknown[][]

type D1 = Awaited<ReturnType<Miniflare['getD1Database']>>

export const runQuery = (database: D1, { sql, params }: Query): Promise<Rows> =>
  database
    .prepare(sql)
    .bind(...params)
    .raw()

/** Answers queries on loopback to whoever can read the state folder. Gives the function that ends it. */
export async function openWire(state: StateFolder, database: D1): Promise<() => void> {
  const secret = randomBytes(32).toString('base64url')
  const server = createServer(async (request, response) => {
    if (!isSame(request.headers.authorization ?? '', `Bearer ${secret}`)) {
      response.writeHead(403).end()
      return
    }
    try {
      const rows = await runQuery(database, JSON.parse(await textOf(request)))
      response.end(JSON.stringify({ rows }))
    } catch (error) {
      response.writeHead(500).end(JSON.stringify({ error: error instanceof Error ? error.message : String(error) }))
    }
  })
  const port = await listen(server, 0)
  const path = wirePath(state)
  writeWhole(path, JSON.stringify({ port, secret }), 0o600)
  return () => {
    rmSync(path, { force: true })
    server.close()
    server.closeAllConnections()
  }
}

export interface Wire {
  readonly port: number
  readonly secret: string
}

/** The wire of the edge that runs, or null. A killed edge leaves its file: then nobody answers at its port. */
export function readWire(state: StateFolder): Wire | null {
  try {
    return JSON.parse(readFileSync(wirePath(state), 'utf8'))
  } catch {
    return null
  }
}

export async function queryOverWire({ port, secret }: Wire, query: Query): Promise<Rows> {
  const response = await fetch(`http://127.0.0.1:${port}/`, {
    method: 'POST',
    headers: { authorization: `Bearer ${secret}` },
    body: JSON.stringify(query),
  })
  const answer = (await response.json()) as { rows?: Rows; error?: string }
  if (answer.rows === undefined) throw new Error(answer.error ?? `the local edge answered ${response.status}`)
  return answer.rows
}

/** Whether the edge that left this file is there. */
export const isAnswering = (wire: Wire): Promise<boolean> =>
  queryOverWire(wire, { sql: 'SELECT 1', params: [] }).then(
    () => true,
    () => false,
  )

const wirePath = (state: StateFolder): string => join(state.own, 'edge.json')

async function textOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk)
  return Buffer.concat(chunks).toString('utf8')
}

function isSame(given: string, expected: string): boolean {
  const [a, b] = [Buffer.from(given), Buffer.from(expected)]
  return a.length === b.length && timingSafeEqual(a, b)
}
