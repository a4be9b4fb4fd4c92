// How a command reaches D1 while an edge or another command has it open: workerd waits for no other writer, so whoever
// has the state writes for the others.

import { randomBytes, timingSafeEqual } from 'node:crypto'
import { readFileSync, rmSync } from 'node:fs'
import { createServer, type IncomingMessage } from 'node:http'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
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

/** Milliseconds: commands that wait look for a wire several times in this. */
const LINGER = 300

/** Answers queries on loopback to whoever can read the state folder. `lasting`: an edge's. */
export async function openWire(
  state: StateFolder,
  database: D1,
  { lasting }: Pick<Wire, 'lasting'>,
): Promise<{ readonly close: () => void; readonly unused: () => Promise<void> }> {
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
  // A command is connected from its first statement to its end.
  let [connected, seen] = [0, Date.now()]
  server.on('connection', (socket) => {
    connected++
    socket.on('close', () => {
      connected--
      seen = Date.now()
    })
  })
  const port = await listen(server, 0)
  const path = wirePath(state)
  const wire: Wire = { port, secret, lasting }
  writeWhole(path, JSON.stringify(wire), 0o600)
  return {
    close: () => {
      rmSync(path, { force: true })
      server.close()
      server.closeAllConnections()
    },
    unused: async () => {
      while (connected > 0 || Date.now() - seen < LINGER) await sleep(10)
    },
  }
}

export interface Wire {
  readonly port: number
  readonly secret: string
  /** Whether an edge has it, or a command that serves others before it ends. */
  readonly lasting: boolean
}

/** The wire of whoever has the state, or null. A killed one leaves its file: then nobody answers at its port. */
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

/** Whether the one that left this file is there. */
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
