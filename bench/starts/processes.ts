// Measures how long a command takes, and `npm start` to a ready runner.

import { type ChildProcess, spawn } from 'node:child_process'
import { cpSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PROJECT } from '../../test/end-to-end/processes.ts'

/** Seconds until the command has ended, with exit code 0. */
export async function timeOf(command: string, args: readonly string[]): Promise<number> {
  const from = performance.now()
  const child = spawn(command, args, { cwd: PROJECT, stdio: ['ignore', 'ignore', 'inherit'] })
  const code = await endOf(child)
  if (code !== 0) throw new Error(`${command} ${args.join(' ')} ended with ${code}`)
  return (performance.now() - from) / 1000
}

const endOf = (child: ChildProcess): Promise<number | null> =>
  new Promise((resolve, reject) => child.once('error', reject).once('close', resolve))

/** What a clone has. */
const CHECKED_OUT = ['src', 'migrations', 'package.json', 'package-lock.json', 'tsconfig.json', 'wrangler.toml']

/** A checkout after `npm ci`, with nothing cached yet; `remove` deletes it. */
export function freshCheckout(): { readonly folder: string; readonly remove: () => void } {
  const folder = mkdtempSync(join(tmpdir(), 'muster-checkout-'))
  for (const name of [...CHECKED_OUT, 'trust.yaml'])
    cpSync(join(PROJECT, name), join(folder, name), { recursive: true })
  symlinkSync(join(PROJECT, 'node_modules'), join(folder, 'node_modules'))
  const remove = (): void => rmSync(folder, { recursive: true, force: true })
  return { folder, remove }
}

/** Seconds from `npm start` to the screen that says that the runner is ready. */
export async function timeToReady(folder: string, ending: AbortSignal): Promise<number> {
  const from = performance.now()
  const args = ['start', '--', '--port', '0', '--tls-port', '0']
  const child = spawn('npm', args, { cwd: folder, stdio: ['ignore', 'pipe', 'inherit'], detached: true })
  const ended = endOf(child)
  const end = (signal: NodeJS.Signals): void => {
    if (child.pid !== undefined && child.exitCode === null) process.kill(-child.pid, signal)
  }
  const interrupt = (): void => end('SIGINT')
  ending.addEventListener('abort', interrupt)
  try {
    let said = ''
    for await (const chunk of child.stdout) {
      said += chunk
      if (said.includes('connected and ready')) return (performance.now() - from) / 1000
    }
    throw new Error(`npm start brought no ready runner: ${said.slice(-500)}`)
  } finally {
    ending.removeEventListener('abort', interrupt)
    interrupt()
    await ended
  }
}
