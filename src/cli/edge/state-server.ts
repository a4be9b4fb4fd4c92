// Lets commands use the D1 of a running edge: workerd waits for no other writer, so the edge runs their statements.
// Without an edge, one command at a time locks the state.

import { randomBytes, timingSafeEqual } from 'node:crypto'
import { readFileSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { writeAtomically } from '../../node/atomic-file.ts'
import { messageOf } from '../../node/errors.ts'
import { closeServer, listen } from '../../node/server.ts'
import { err, ok, type Result } from '../../protocol/result.ts'
import { CommandError } from '../operator/command.ts'
import { reach } from '../operator/network.ts'
import type { Query } from './runtime.ts'
import { lockState, type StateFolder } from './state.ts'

const LOOPBACK = '127.0.0.1'

/** Content of the server's file. */
interface Address extends EdgeFacts {
  readonly port: number
  readonly secret: string
}

/** What a command must know of the edge that runs. */
interface EdgeFacts {
  /** wrangler's, in which the edge runs; null: the top level of wrangler.toml. */
  readonly environment: string | null
  /** Hash of the trust file that it decides by. */
  readonly trustHash: string
  /** Shards that it has a database of. */
  readonly shards: readonly number[]
}

/** The edge that has the lock on a state. */
export interface RunningEdge extends EdgeFacts {
  readonly query: Query
}

const addressFile = (state: StateFolder): string => join(state.own, 'edge.json')

/** Runs the statements of everybody who can read the state folder. Gives the function that ends it. */
export async function serveState(state: StateFolder, query: Query, facts: EdgeFacts): Promise<() => Promise<void>> {
  const secret = randomBytes(32).toString('base64url')
  const server = createServer(async (request, response) => {
    if (!isSame(request.headers.authorization ?? '', `Bearer ${secret}`)) {
      response.writeHead(403).end()
      return
    }
    try {
      const { shard, sql, params } = JSON.parse(await text(request))
      response.end(JSON.stringify({ rows: await query(shard, sql, params) }))
    } catch (error) {
      response.writeHead(500).end(JSON.stringify({ error: messageOf(error) }))
    }
  })
  const address: Address = { port: await listen(server, 0, LOOPBACK), secret, ...facts }
  writeAtomically(addressFile(state), JSON.stringify(address))
  return () => {
    rmSync(addressFile(state), { force: true })
    return closeServer(server)
  }
}

/** Milliseconds that a command may wait for others to be done with the state, and for one statement. */
const PATIENCE = 60_000
/** Bytes of the rows of one statement. */
const LARGEST = 256 * 1024 * 1024

/**
 * Locks the state and gives the function that unlocks it; where an edge has the lock, the error is that edge.
 * Waits while another command has it; throws a CommandError where that takes over a minute.
 */
export async function claimState(state: StateFolder, signal?: AbortSignal): Promise<Result<() => void, RunningEdge>> {
  for (const deadline = Date.now() + PATIENCE; Date.now() < deadline; ) {
    const unlock = lockState(state)
    if (unlock !== null) {
      // It is of an edge that was killed.
      rmSync(addressFile(state), { force: true })
      return ok(unlock)
    }
    const edge = await findEdge(state)
    if (edge !== null) return err(edge)
    await sleep(50 + Math.random() * 100, undefined, signal && { signal })
  }
  throw new CommandError(`the local state ${state.root} is in use by another command; try again`)
}

/** Null where no edge answers: none runs, it is not ready yet, or it was killed and left its file. */
async function findEdge(state: StateFolder): Promise<RunningEdge | null> {
  let address: Address
  try {
    address = JSON.parse(readFileSync(addressFile(state), 'utf8'))
  } catch {
    return null
  }
  const query: Query = (shard, sql, params) => ask(address, { shard, sql, params })
  const { environment, trustHash, shards } = address
  return query(0, 'SELECT 1', []).then(
    () => ({ query, environment, trustHash, shards }),
    () => null,
  )
}

/** What the server is sent. */
interface Asked {
  readonly shard: number
  readonly sql: string
  readonly params: readonly unknown[]
}

async function ask({ port, secret }: Address, asked: Asked): Promise<unknown[][]> {
  const response = await reach(new URL(`http://${LOOPBACK}:${port}/`), {
    method: 'POST',
    headers: { authorization: `Bearer ${secret}` },
    body: JSON.stringify(asked),
    timeout: PATIENCE,
    limit: LARGEST,
  })
  if (!response.ok) throw new Error(response.error)
  const { status, body } = response.value
  const answer: { rows?: unknown[][]; error?: string } = JSON.parse(new TextDecoder().decode(body))
  if (answer.rows === undefined) throw new Error(answer.error ?? `the local edge answered ${status}`)
  return answer.rows
}

function isSame(given: string, expected: string): boolean {
  const [a, b] = [Buffer.from(given), Buffer.from(expected)]
  return a.length === b.length && timingSafeEqual(a, b)
}
