// Opens D1 for a command: the local one, through the running edge or alone, or the deployed one. Of each shard.

import { messageOf } from '../../node/errors.ts'
import type { CompiledTrust } from '../../trust/compiled.ts'
import { bindingOf, shardOf } from '../../trust/shards.ts'
import type { Database } from '../../worker/store/db.ts'
import { openThrough } from '../../worker/store/proxy.ts'
import { environmentOf, readProject, requireCheckout, shardsIn } from '../edge/project.ts'
import type { Query } from '../edge/runtime.ts'
import { type StateFolder, stateFolder } from '../edge/state.ts'
import { claimState, type RunningEdge } from '../edge/state-server.ts'
import { CommandError, type SharedOptions } from '../operator/command.ts'

/** The databases that wrangler.toml binds. */
export interface Databases {
  /** That of shard 0 first. */
  readonly all: readonly [Database, ...Database[]]
  /** Throws a CommandError where wrangler.toml lacks the shard of the tenant. */
  readonly of: (trust: CompiledTrust, tenant: string) => Database
  /**
   * Writes to every database that can be written to, to that of shard 0 first, and throws a CommandError where one failed:
   * the same command again writes what is missing.
   */
  readonly writeEach: <T>(write: (db: Database) => Promise<T>) => Promise<T[]>
}

/** `edge`: the edge that runs on the local state, if any. */
type Work<T> = (databases: Databases, edge: RunningEdge | null) => Promise<T>

/** Opens D1, runs `work` and closes it. A local one that was never used is migrated first. */
export async function withDatabases<T>(options: SharedOptions, work: Work<T>): Promise<T> {
  requireCheckout('a command on the database')
  // Checked first: beside a running edge nothing else needs the name.
  if (options.env !== undefined) await readProject(options.env)
  if (options.remote) {
    const { openRemote } = await import('./remote.ts')
    const project = await readProject(options.env)
    return workWith(await openRemote(project), shardsIn(project), work)
  }
  const state = stateFolder(options.persistTo)
  const lock = await claimState(state)
  if (!lock.ok) {
    refuseOtherEnvironment(state, lock.error, environmentOf(options.env))
    return workWith(lock.error.query, lock.error.shards, work, lock.error)
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
  return workWith(query, shardsIn(project), work).finally(stop)
}

async function workWith<T>(
  query: Query,
  shards: readonly number[],
  work: Work<T>,
  edge: RunningEdge | null = null,
): Promise<T> {
  const open = (shard: number) => openOne(query, shard, shards.length > 1)
  const [first, ...others] = shards.map(open)
  if (first === undefined) throw new Error('there is no shard 0')
  const of: Databases['of'] = (trust, tenant) => {
    const shard = shardOf(trust.shards, tenant)
    if (shards.includes(shard)) return open(shard)
    throw new CommandError(
      `the tenant ${tenant} is in the database ${bindingOf(shard)}, which wrangler.toml does not bind${edge === null ? '' : ', or not when the running edge was started'}: see muster trust check`,
    )
  }
  const all = [first, ...others] as const
  try {
    return await work({ all, of, writeEach: (write) => writeEach(all, write) }, edge)
  } catch (error) {
    throw faultOf(error)
  }
}

/** drizzle puts an error of its own around it, with the statement and its values. */
const faultOf = (error: unknown): unknown =>
  error instanceof Error && error.cause instanceof CommandError ? error.cause : error

/** Each minute the Worker copies bans of shard 0 to the others, so it comes first. */
async function writeEach<T>([first, ...others]: Databases['all'], write: (db: Database) => Promise<T>): Promise<T[]> {
  const written = [...(await Promise.allSettled([write(first)])), ...(await Promise.allSettled(others.map(write)))]
  const faults = written.flatMap((one) => (one.status === 'rejected' ? [faultOf(one.reason)] : []))
  const [fault] = faults
  if (fault === undefined) return written.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []))
  const bug = faults.find((one) => !(one instanceof CommandError))
  if (bug !== undefined || others.length === 0) throw bug ?? fault
  const where = faults.length === written.length ? 'no database took it' : 'it is written to the databases that answer'
  throw new CommandError(`${faults.map(messageOf).join('; ')} (${where}: repeat the command once all do)`)
}

/** A statement that fails is one line for the operator: what the database said, without the statement's values. */
function openOne(query: Query, shard: number, isOneOfSeveral: boolean): Database {
  const name = isOneOfSeveral ? `the database ${bindingOf(shard)}` : 'the database'
  return openThrough((sql, params) =>
    query(shard, sql, params).catch((error: unknown) => {
      throw error instanceof CommandError ? error : new CommandError(`${name}: ${messageOf(error)}`)
    }),
  )
}
