// Kills what this process started as soon as this process is gone, even by kill -9.

import { spawn } from 'node:child_process'
import { rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { PROJECT } from './project.ts'
import type { StateFolder } from './state.ts'

/** The environment that `workerd.sh` needs. */
export const workerdEnvironment = (state: StateFolder): Record<string, string> =>
  process.platform === 'win32' ? {} : { MUSTER_WORKERD: workerd(), MUSTER_PID_FILE: workerdPid(state) }

/**
 * While `start` runs, Miniflare starts `workerd.sh` in the place of workerd: it reads that from this process'
 * environment, where it is not left for others that this process starts.
 */
export async function throughShell<T>(start: () => Promise<T>): Promise<T> {
  if (process.platform === 'win32') return start()
  process.env[WORKERD_PATH] = join(PROJECT, 'src/cli/edge/workerd.sh')
  try {
    return await start()
  } finally {
    delete process.env[WORKERD_PATH]
  }
}
const WORKERD_PATH = 'MINIFLARE_WORKERD_PATH'

/**
 * The file in which `workerd.sh` writes the pid of workerd. Each `muster` process has its own: the watchdog of a killed
 * one may read it only when the next one has started.
 */
export const workerdPid = (state: StateFolder, muster = process.pid): string => join(state.own, `workerd-${muster}.pid`)

/**
 * Starts the watchdog of the process that the file names: a shell that waits on a pipe of ours, which ends when we
 * do, and then kills it. Gives the function that ends the watchdog.
 */
export function watch(pidFile: string): () => Promise<void> {
  if (process.platform === 'win32') return async () => {}
  const script = `trap '' INT TERM HUP; read -r _; kill -9 "$(cat "$0")"; rm -f "$0"`
  const dog = spawn('/bin/sh', ['-c', script, pidFile], { stdio: ['pipe', 'ignore', 'ignore'] })
  const gone = new Promise<void>((resolve) => dog.on('close', () => resolve()))
  return () => {
    dog.kill('SIGKILL')
    rmSync(pidFile, { force: true })
    return gone
  }
}

/** The same workerd that Miniflare would start. */
const workerd = (): string => createRequire(createRequire(import.meta.url).resolve('miniflare'))('workerd').default
