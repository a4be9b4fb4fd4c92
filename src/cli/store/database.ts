// How a command reaches D1: the local one, through the edge that runs or by itself, or the deployed one with wrangler.

import { setTimeout as sleep } from 'node:timers/promises'
import type { Database } from '../../worker/store/db.ts'
import { type Execute, openThrough } from '../../worker/store/proxy.ts'
import { applyMigrations } from '../edge/migrations.ts'
import { type Project, readProject } from '../edge/project.ts'
import { lockState, type StateFolder, stateFolder } from '../edge/state.ts'
import { isAnswering, openWire, queryOverWire, readWire, runQuery } from '../edge/state-server.ts'
import { CommandError, type SharedOptions } from '../operator/command.ts'

/** Milliseconds for other commands to be done with the state. */
const PATIENCE = 60_000

/** Opens D1, runs `work` and closes it. A local one that was never used is migrated first. */
export async function withDatabase<T>(options: SharedOptions, work: (db: Database) => Promise<T>): Promise<T> {
  // Said before anything else: an edge that runs has no use for the name, and wrangler takes a wrong one for none.
  const project = options.env === undefined ? null : await readProject(options.env)
  if (options.remote) {
    const { executeRemotely } = await import('./remote.ts')
    return workWith((sql, params) => executeRemotely(options, sql, params), work)
  }
  const state = stateFolder(options.persistTo)
  const deadline = Date.now() + PATIENCE
  while (Date.now() < deadline) {
    const wire = readWire(state)
    if (wire !== null && (await isAnswering(wire))) {
      return workWith((sql, params) => queryOverWire(wire, { sql, params }), work)
    }
    const unlock = lockState(state)
    if (unlock !== null) return withState(state, project, work).finally(unlock)
    await sleep(50 + Math.random() * 100)
  }
  throw new CommandError(`the local state ${state.root} is in use by another command; try again`)
}

/** workerd alone on the state: the same engine, the same files and the same migrations as an edge would have. */
async function withState<T>(state: StateFolder, known: Project | null, work: (db: Database) => Promise<T>): Promise<T> {
  // Miniflare loads while wrangler reads.
  const [project, { startDatabase }] = await Promise.all([known ?? readProject(), import('../edge/runtime.ts')])
  const { miniflare, stop } = await startDatabase(state, project)
  try {
    const database = await miniflare.getD1Database('DB')
    await applyMigrations(database, project.migrations)
    // The start takes seconds: those that wait for the state are served along.
    const wire = await openWire(state, database, { lasting: false })
    try {
      return await workWith((sql, params) => runQuery(database, { sql, params }), work)
    } finally {
      await wire.unused()
      wire.close()
    }
  } finally {
    await stop()
  }
}

/** A statement that fails is one line for the operator: what the database said, without the statement's values. */
async function workWith<T>(execute: Execute, work: (db: Database) => Promise<T>): Promise<T> {
  let fault: unknown
  const database = openThrough((sql, params) =>
    execute(sql, params).catch((error: unknown) => {
      fault = error
      throw error
    }),
  )
  try {
    return await work(database)
  } catch (error) {
    const isFault = error === fault || (error instanceof Error && error.cause === fault)
    if (fault === undefined || !isFault) throw error
    throw fault instanceof CommandError
      ? fault
      : new CommandError(`the database: ${fault instanceof Error ? fault.message : String(fault)}`)
  }
}
