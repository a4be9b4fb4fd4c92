// Starts workerd through Miniflare: with the Worker in it, or with D1 alone; migrations are applied before it is used.

import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { convertV4MiniflareOptions, type Json, Miniflare, NoOpLog, type V4WorkerOptions } from 'miniflare'
import { codeOf, messageOf } from '../../node/errors.ts'
import type { CompiledTrust } from '../../trust/compiled.ts'
import { bindingOf } from '../../trust/shards.ts'
import { CommandError } from '../operator/command.ts'
import { makeFolder } from '../operator/files.ts'
import { TRUST_MODULE } from './bundle.ts'
import { OUTBOUND_WORKER } from './outbound.ts'
import { type Migration, PROJECT, type Project, shardsIn } from './project.ts'
import type { StateFolder } from './state.ts'
import { throughShell, watch, workerdEnvironment, workerdPid } from './watchdog.ts'

export interface RuntimeOptions {
  readonly project: Project
  /** The Worker's code. */
  readonly script: string
  readonly trust: CompiledTrust
  /** Over the variables of wrangler.toml. */
  readonly bindings: Readonly<Record<string, Json>>
  readonly rateLimits: boolean
  readonly outbound: V4WorkerOptions | null
  readonly log: (level: string, message: string) => void
  /** Ends the start. */
  readonly ending: AbortSignal
}

/** Runs one statement on the D1 of a shard; gives the values of each row in the order of the columns. */
export type Query = (shard: number, sql: string, params: readonly unknown[]) => Promise<unknown[][]>

export interface Runtime {
  readonly query: Query
  readonly stop: () => Promise<void>
}

/** workerd with the Worker in it, on a port of its own that only the terminator uses. */
export async function startRuntime(
  state: StateFolder,
  options: RuntimeOptions,
): Promise<Runtime & { readonly port: number }> {
  const { project, outbound } = options
  const { ratelimits, ...worker } = project.worker
  const main: V4WorkerOptions = {
    ...worker,
    ...(options.rateLimits && { ratelimits }),
    ...(outbound !== null && { outboundService: OUTBOUND_WORKER }),
    modules: [
      { type: 'ESModule', path: join(PROJECT, 'worker.mjs'), contents: options.script },
      {
        type: 'ESModule',
        path: join(PROJECT, TRUST_MODULE),
        contents: `export default JSON.parse(${JSON.stringify(JSON.stringify(options.trust))})`,
      },
    ],
    modulesRoot: PROJECT,
    bindings: { ...project.variables, ...options.bindings },
    // `proxy`: the whole URL is in the request line, so the Worker gets the scheme, too.
    unsafeDirectSockets: [{ host: '127.0.0.1', port: 0, proxy: true }],
  }
  const { miniflare, ...runtime } = await launch(state, outbound === null ? [main] : [main, outbound], options)
  return { ...runtime, port: Number((await miniflare.unsafeGetDirectURL()).port) }
}

/** D1 alone, for a command when no edge runs. */
export function startDatabase(state: StateFolder, project: Project): Promise<Runtime> {
  const { d1Databases } = project.worker
  const worker = { modules: true, script: 'export default {}', ...(d1Databases && { d1Databases }) } as const
  return launch(state, [worker], { project, log: () => {} })
}

async function launch(
  state: StateFolder,
  workers: V4WorkerOptions[],
  { project, log, ending }: Pick<RuntimeOptions, 'project' | 'log'> & { readonly ending?: AbortSignal },
): Promise<Runtime & { readonly miniflare: Miniflare }> {
  const unsafeRuntimeEnv = workerdEnvironment(state)
  // Fails before anything is started where the folder cannot be used.
  makeFolder(state.resources, state.root)
  // The pid of an earlier start may be another process's by now.
  rmSync(workerdPid(state), { force: true })
  const unwatch = watch(workerdPid(state))
  let miniflare: Miniflare | null = null
  const stop = async (): Promise<void> => {
    try {
      await miniflare?.dispose()
    } finally {
      await unwatch()
    }
  }
  boundHeaps()
  const options = convertV4MiniflareOptions({
    workers,
    resourcePersistencePath: state.resources,
    unsafeRuntimeEnv,
    log: new NoOpLog(),
    handleStructuredLogs: ({ level, message }) => log(level, message),
    // It comes from the terminator; without this, Miniflare asks Cloudflare for an example.
    cf: false,
    telemetry: { enabled: false },
  })
  try {
    const made = withoutSignals(() => new Miniflare(options))
    miniflare = made
    await throughShell(() => made.ready).catch((error: unknown) => {
      throw startFault(state, error)
    })
    ending?.throwIfAborted()
    const databaseOf = (shard: number) => made.getD1Database(bindingOf(shard))
    for (const shard of shardsIn(project)) await applyMigrations(await databaseOf(shard), project.migrations)
    // Asked for each time: Miniflare starts another workerd where one has crashed, and what the former gave is dead.
    const query: Query = async (shard, sql, params) => {
      const database = await databaseOf(shard)
      return database
        .prepare(sql)
        .bind(...params)
        .raw()
    }
    return { miniflare: made, query, stop }
  } catch (error) {
    // A Miniflare that has not started says so again.
    await stop().catch(() => {})
    throw error
  }
}

/**
 * Left alone, V8 lets the heap of each isolate grow by hundreds of MB of garbage before it collects the old part: workerd
 * had 410 MB after 4,000 enrollments and has 190 so, at the same CPU. Cloudflare sets bounds of its own.
 */
const HEAP_FLAGS = '--max-semi-space-size=2 --initial-old-space-size=4'

/** Miniflare takes V8's flags from the environment; those that are there already stay. */
function boundHeaps(): void {
  const given = process.env.MINIFLARE_WORKERD_V8_FLAGS ?? ''
  if (!given.includes(HEAP_FLAGS)) process.env.MINIFLARE_WORKERD_V8_FLAGS = `${HEAP_FLAGS} ${given}`.trim()
}

/** Where workerd itself says why it did not start, one line for the operator: a full disk or a damaged state. */
function startFault({ root }: StateFolder, error: unknown): unknown {
  const [, why] = messageOf(error).match(/failed: (?:[^"=]* = )?([^"\\]+)/) ?? []
  return codeOf(error) === 'ERR_RUNTIME_FAILURE' && why !== undefined
    ? new CommandError(`workerd does not start on the local state ${root}: ${why}`)
    : error
}

type D1 = Awaited<ReturnType<Miniflare['getD1Database']>>

const MIGRATIONS_TABLE = `CREATE TABLE IF NOT EXISTS d1_migrations (
  id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE, applied_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP NOT NULL)`

/** As `wrangler d1 migrations apply` does, in the same table. Each migration is one transaction with its row. */
async function applyMigrations(database: D1, migrations: readonly Migration[]): Promise<void> {
  await database.prepare(MIGRATIONS_TABLE).run()
  const { results } = await database.prepare('SELECT name FROM d1_migrations').all<{ name: string }>()
  const applied = new Set(results.map(({ name }) => name))
  for (const { name, statements } of migrations.filter((migration) => !applied.has(migration.name))) {
    const row = database.prepare('INSERT INTO d1_migrations (name) VALUES (?)').bind(name)
    await database.batch([...statements.map((sql) => database.prepare(sql)), row]).catch((error: Error) => {
      throw new CommandError(`migrations/${name} does not fit the database of the local state: ${error.message}`)
    })
  }
}

/** Miniflare would end the process on a signal; the command does that itself. */
function withoutSignals<T>(make: () => T): T {
  const before = SIGNALS.map((signal) => process.listeners(signal))
  const made = make()
  for (const [i, signal] of SIGNALS.entries()) {
    for (const listener of process.listeners(signal)) {
      if (!before[i]?.includes(listener)) process.removeListener(signal, listener)
    }
  }
  return made
}
const SIGNALS: readonly NodeJS.Signals[] = ['SIGINT', 'SIGTERM', 'SIGHUP']
