// workerd with the Worker in it: Miniflare's part of the local edge.

import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { convertV4MiniflareOptions, type Json, Miniflare, NoOpLog, type V4WorkerOptions } from 'miniflare'
import { makeFolder } from '../operator/files.ts'
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
  /** Whoever waits no more for the start. */
  readonly ending: AbortSignal
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
  return start(state, outbound === null ? [main] : [main, outbound], options)
}

/** D1 alone, for a command when no edge runs. */
export const startDatabase = (state: StateFolder, { worker: { d1Databases } }: Project): Promise<Runtime> =>
  start(state, [{ modules: true, script: 'export default {}', ...(d1Databases && { d1Databases }) }], { log: () => {} })

async function start(
  state: StateFolder,
  workers: V4WorkerOptions[],
  { log, ending }: Pick<RuntimeOptions, 'log'> & { readonly ending?: AbortSignal },
): Promise<Runtime> {
  const unsafeRuntimeEnv = workerdEnvironment(state)
  // A folder that cannot be used is found out here, so before anything is started.
  makeFolder(state.resources, state.root)
  // A pid of an earlier start may be anybody's by now.
  rmSync(workerdPid(state), { force: true })
  const unwatch = watch(workerdPid(state))
  let miniflare: Miniflare | null = null
  const stop = async (): Promise<void> => {
    await miniflare?.dispose()
    await unwatch()
  }
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
  try {
    miniflare = withoutSignals(() => new Miniflare(options))
    await miniflare.ready
    ending?.throwIfAborted()
    return { miniflare, stop }
  } catch (error) {
    await stop()
    throw error
  }
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
