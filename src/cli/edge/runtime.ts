// The Worker in workerd: bindings from wrangler.toml, the development entry file bundled, Miniflare to run both.

import { join } from 'node:path'
import { build } from 'esbuild'
import { convertV4MiniflareOptions, type Json, Miniflare, NoOpLog, type V4WorkerOptions } from 'miniflare'
import { OUTBOUND_WORKER } from './outbound.ts'
import { PROJECT } from './project.ts'
import type { StateFolder } from './state.ts'
import { watchWorkerd, workerdEnvironment } from './watchdog.ts'

export interface Project {
  readonly name: string
  readonly crons: readonly string[]
  readonly migrations: string
  readonly variables: Readonly<Record<string, Json>>
  readonly worker: V4WorkerOptions
}

/** What wrangler.toml says, as wrangler itself reads it. Secrets of `.dev.vars` stay out: they are `wrangler dev`'s. */
export async function readProject(env?: string): Promise<Project> {
  process.env.WRANGLER_LOG = 'none'
  const { unstable_getMiniflareWorkerOptions, unstable_readConfig } = await import('wrangler')
  const config = unstable_readConfig({ config: join(PROJECT, 'wrangler.toml'), env })
  const { workerOptions } = unstable_getMiniflareWorkerOptions(config, env)
  const migrations =
    config.d1_databases.find(({ binding }: { binding: string }) => binding === 'DB')?.migrations_dir ?? 'migrations'
  // A VPC service is reached through Cloudflare only.
  const { vpcServices: _, vpcNetworks: __, ...local } = workerOptions
  return {
    name: config.name ?? 'muster',
    crons: config.triggers.crons ?? [],
    migrations: join(PROJECT, migrations),
    variables: { ...config.vars } as Record<string, Json>,
    worker: { ...local, modules: [], name: config.name ?? 'muster' },
  }
}

/** One ES module: the entry file with all that it imports; `trust` takes the place of the compiled trust file. */
export async function bundle(entry: string, trust: unknown): Promise<string> {
  const result = await build({
    entryPoints: [entry],
    absWorkingDir: PROJECT,
    bundle: true,
    write: false,
    format: 'esm',
    platform: 'browser',
    target: 'es2024',
    conditions: ['workerd', 'worker', 'browser'],
    external: ['cloudflare:*', 'node:*'],
    jsx: 'automatic',
    jsxImportSource: 'hono/jsx',
    keepNames: true,
    sourcemap: 'inline',
    logLevel: 'silent',
    plugins: [
      {
        name: 'trust',
        setup: ({ onResolve, onLoad }) => {
          onResolve({ filter: /^#trust$/ }, () => ({ path: 'trust', namespace: 'trust' }))
          onLoad({ filter: /^trust$/, namespace: 'trust' }, () => ({ contents: JSON.stringify(trust), loader: 'json' }))
        },
      },
    ],
  })
  const [output] = result.outputFiles
  if (output === undefined) throw new Error('esbuild made no output')
  return output.text
}

export interface RuntimeOptions {
  readonly project: Project
  readonly script: string
  /** Over the variables of wrangler.toml. */
  readonly bindings: Readonly<Record<string, Json>>
  readonly rateLimits: boolean
  readonly outbound: V4WorkerOptions | null
  readonly log: (level: string, message: string) => void
}

export interface Runtime {
  readonly miniflare: Miniflare
  readonly stop: () => Promise<void>
}

/** workerd with the Worker in it, on a port of its own that only the terminator uses. */
export async function startRuntime(state: StateFolder, options: RuntimeOptions): Promise<Runtime> {
  const { project, outbound } = options
  const { ratelimits, ...worker } = project.worker
  const main: V4WorkerOptions = {
    ...worker,
    ...(options.rateLimits && { ratelimits }),
    ...(outbound !== null && { outboundService: OUTBOUND_WORKER }),
    modules: [{ type: 'ESModule', path: join(PROJECT, 'worker.mjs'), contents: options.script }],
    modulesRoot: PROJECT,
    bindings: { ...project.variables, ...options.bindings },
    unsafeDirectSockets: [{ host: '127.0.0.1', port: 0 }],
  }
  return start(state, outbound === null ? [main] : [main, outbound], options.log)
}

/** D1 alone, for a command when no edge runs. */
export const startDatabase = (state: StateFolder, { worker: { d1Databases } }: Project): Promise<Runtime> =>
  start(state, [{ modules: true, script: 'export default {}', ...(d1Databases && { d1Databases }) }], () => {})

async function start(state: StateFolder, workers: V4WorkerOptions[], log: RuntimeOptions['log']): Promise<Runtime> {
  const unsafeRuntimeEnv = workerdEnvironment(state)
  const unwatch = watchWorkerd(state)
  const miniflare = new Miniflare(
    convertV4MiniflareOptions({
      workers,
      resourcePersistencePath: state.resources,
      unsafeRuntimeEnv,
      log: new NoOpLog(),
      handleStructuredLogs: ({ level, message }) => log(level, message),
      // The terminator's is taken; without one Miniflare asks Cloudflare for an example.
      cf: false,
      telemetry: { enabled: false },
    }),
  )
  const stop = async (): Promise<void> => {
    await miniflare.dispose()
    await unwatch()
  }
  try {
    await miniflare.ready
  } catch (error) {
    await stop()
    throw error
  }
  return { miniflare, stop }
}
