// The interface of an interop peer, and what peers share: a cache folder and the programs that they start.

import { execFile, spawn } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { freePort, PROJECT } from '../end-to-end/processes.ts'

/** Runs one check: it holds unless it throws. */
export type Check = (sentence: string, work: () => Promise<void>) => Promise<void>

export interface Peer {
  readonly name: string
  /** What is tried with it, in a line. */
  readonly summary: string
  /** Installs what can be installed into the cache; what is missing after that, a line each. */
  readonly prepare: () => Promise<string[]>
  readonly run: (check: Check) => Promise<void>
}

/** Folder for what peers download; out of the repository, kept from run to run. */
export function cacheFolder(name: string): string {
  const folder = join(PROJECT, 'node_modules', '.cache', 'muster-interop', name)
  mkdirSync(folder, { recursive: true })
  return folder
}

/** Runs a program to its end and gives what it printed; throws with what it complained of. */
export async function run(program: string, args: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<string> {
  const { stdout } = await promisify(execFile)(program, args, { env: { ...process.env, ...env } })
  return stdout
}

/** Whether a program runs at all. */
export const runs = (program: string, ...args: readonly string[]): Promise<boolean> =>
  run(program, args).then(
    () => true,
    () => false,
  )

export interface Server {
  readonly url: string
  readonly stop: () => Promise<void>
}

/** Starts a server on a free port and waits until it answers HTTP at `probe`. */
export async function startServer(
  program: string,
  argsFor: (port: number) => readonly string[],
  probe: string,
  env: NodeJS.ProcessEnv = {},
): Promise<Server> {
  const port = await freePort()
  const child = spawn(program, argsFor(port), { env: { ...process.env, ...env }, stdio: 'ignore' })
  const exited = new Promise<void>((resolve) => child.on('close', () => resolve()))
  const url = `http://127.0.0.1:${port}`
  const stop = async () => {
    child.kill()
    await exited
  }
  for (let tries = 0; tries < 300 && child.exitCode === null; tries++) {
    const up = await fetch(url + probe).then(
      () => true,
      () => false,
    )
    if (up) return { url, stop }
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
  await stop()
  throw new Error(`${program} did not start`)
}
