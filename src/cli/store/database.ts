// Opens D1 for a command: the local one, through the running edge or alone, or the deployed one.

import { messageOf } from '../../node/errors.ts'
import type { Database } from '../../worker/store/db.ts'
import { type Execute, openThrough } from '../../worker/store/proxy.ts'
import { environmentOf, readProject, requireCheckout } from '../edge/project.ts'
import { type StateFolder, stateFolder } from '../edge/state.ts'
import { claimState, type RunningEdge } from '../edge/state-server.ts'
import { CommandError, type SharedOptions } from '../operator/command.ts'

/** `edge`: the edge that runs on the local state, if any. */
type Work<T> = (db: Database, edge: RunningEdge | null) => Promise<T>

/** Opens D1, runs `work` and closes it. A local one that was never used is migrated first. */
export async function withDatabase<T>(options: SharedOptions, work: Work<T>): Promise<T> {
  requireCheckout('a command on the database')
  // Checked first: beside a running edge nothing else needs the name.
  if (options.env !== undefined) await readProject(options.env)
  if (options.remote) {
    const { openRemote } = await import('./remote.ts')
    return workWith(await openRemote(options.env), work)
  }
  const state = stateFolder(options.persistTo)
  const lock = await claimState(state)
  if (!lock.ok) {
    refuseOtherEnvironment(state, lock.error, environmentOf(options.env))
    return workWith(lock.error.query, work, lock.error)
  }
  return withState(state, options.env, work).finally(lock.value)
}

/** Refuses where the running edge has another environment than the command: then it has another database. */
function refuseOtherEnvironment({ root }: StateFolder, edge: RunningEdge, meant: string | null): void {
  if (edge.environment === meant) return
  const name = (environment: string | null) => (environment === null ? 'no environment' : `environment ${environment}`)
  throw new CommandError(
    `the edge that runs on ${root} has ${name(edge.environment)}, the command ${name(meant)}: give both the same --env, or each its own --persist-to`,
  )
}

/** workerd alone on the state: the same engine, the same files and the same migrations as an edge would have. */
async function withState<T>(state: StateFolder, environment: string | undefined, work: Work<T>): Promise<T> {
  // Miniflare loads while wrangler reads.
  const [project, { startDatabase }] = await Promise.all([readProject(environment), import('../edge/runtime.ts')])
  const { query, stop } = await startDatabase(state, project)
  return workWith(query, work).finally(stop)
}

/** A statement that fails is one line for the operator: what the database said, without the statement's values. */
async function workWith<T>(execute: Execute, work: Work<T>, edge: RunningEdge | null = null): Promise<T> {
  let fault: unknown
  const database = openThrough((sql, params) =>
    execute(sql, params).catch((error: unknown) => {
      fault = error
      throw error
    }),
  )
  try {
    return await work(database, edge)
  } catch (error) {
    const isFault = error === fault || (error instanceof Error && error.cause === fault)
    if (fault === undefined || !isFault) throw error
    throw fault instanceof CommandError ? fault : new CommandError(`the database: ${messageOf(fault)}`)
  }
}
