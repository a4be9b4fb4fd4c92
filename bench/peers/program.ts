// Starts the program of a peer on free ports, waits until it answers, and stops it.

import { setTimeout as sleep } from 'node:timers/promises'
import { messageOf } from '../../src/node/errors.ts'
import { spawnProgram } from '../../test/end-to-end/processes.ts'

export interface RunningProgram {
  readonly pid: number
  readonly stop: () => Promise<void>
}

/** Milliseconds that a server may take until it answers. */
const PATIENCE = 30_000
/** Octets of its last words. */
const LAST_WORDS = 1000

/** `answers` is tried until it does not throw. A program that ends or does not answer throws with its last words. */
export async function startProgram(
  program: string,
  args: readonly string[],
  cwd: string,
  answers: () => Promise<unknown>,
): Promise<RunningProgram> {
  const child = spawnProgram(program, args, { cwd, stdio: ['ignore', 'pipe', 'pipe'] })
  let words = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream?.on('data', (chunk) => {
      words = (words + chunk).slice(-LAST_WORDS)
    })
  }
  let hasEnded = false
  const ended = new Promise<void>((resolve) => {
    const end = () => {
      hasEnded = true
      resolve()
    }
    child.on('close', end)
    child.on('error', (error) => {
      words += error.message
      end()
    })
  })
  const stop = async (): Promise<void> => {
    child.kill('SIGTERM')
    const late = setTimeout(() => child.kill('SIGKILL'), 5000)
    await ended
    clearTimeout(late)
  }
  let fault = ''
  for (const deadline = Date.now() + PATIENCE; !hasEnded && Date.now() < deadline; await sleep(50)) {
    try {
      await answers()
      return { pid: Number(child.pid), stop }
    } catch (error) {
      fault = messageOf(error)
    }
  }
  const what = hasEnded ? 'ended at its start' : `did not answer within ${PATIENCE / 1000} s (${fault})`
  await stop()
  throw new Error(`${program} ${what}: ${words.trim().replaceAll('\n', ' ')}`)
}
