// workerd with the Worker in it: Miniflare's part of the local edge.

import { join } from 'node:path'
import { convertV4MiniflareOptions, type Json, Miniflare, NoOpLog, type V4WorkerOptions } from 'miniflare'
import { OUTBOUND_WORKER } from './outbound.ts'
import { PROJECT, type Project } from './project.ts'
import type { StateFolder } from './state.ts'
import { watch, workerdEnvironment, workerdPid } from './watchdog.ts'

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
  const unwatch = watch(workerdPid(state))
  const options = convertV4MiniflareOptions({
    workers,
    resourcePersistencePath: state.resources,
    unsafeRuntimeEnv,
    log: new NoOpLog(),
    handleStructuredLogs: ({ level, message }) => log(level, message),
    // The terminator's is taken; without one Miniflare asks Cloudflare for an example.
    cf: false,
    telemetry: { enabled: false },
  })
  const miniflare = withoutSignals(() => new Miniflare(options))
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

/** Miniflare ends the process on a signal, with a code of its own; here that is the command's business. */
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
