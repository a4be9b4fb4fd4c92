// Profiles workerd under load with perf, and sorts its samples into phases and into files of the Worker.

import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { bundle } from '../src/cli/edge/bundle.ts'
import { PROJECT } from '../src/cli/edge/project.ts'
import { type Frame, phaseOf, readSamples } from './stacks.ts'

/** What V8 needs so that perf can name its functions; Miniflare passes it on. */
export const PROFILED = { MINIFLARE_WORKERD_V8_FLAGS: '--perf-basic-prof --interpreted-frames-native-stack' }

/** Shares of the samples, largest first. */
export interface Profile {
  readonly samples: number
  readonly phases: readonly Share[]
  /** Of the Worker's own JavaScript and its libraries: by the file of the innermost of its frames. */
  readonly files: readonly Share[]
  /** Innermost functions. */
  readonly functions: readonly Share[]
}

export interface Share {
  readonly name: string
  readonly share: number
}

/** Says what to install where perf is missing or not allowed; null where it can be used. */
export async function perfFault(): Promise<string | null> {
  try {
    await promisify(execFile)('perf', ['--version'])
    return null
  } catch {
    return 'a profile needs perf: apt-get install linux-perf (Debian), linux-tools-generic (Ubuntu), perf (Fedora)'
  }
}

/** `load` runs meanwhile; `file` takes what perf records. */
export async function profile(pid: number, file: string, load: () => Promise<void>): Promise<Profile> {
  // A virtual machine has no hardware counters, so the clock takes the samples.
  const args = ['record', '-q', '-e', 'cpu-clock', '-F', '997', '-g', '-p', String(pid), '-o', file]
  const perf = spawn('perf', args, { stdio: ['ignore', 'ignore', 'pipe'] })
  let complaint = ''
  perf.stderr.on('data', (chunk) => {
    complaint += chunk
  })
  const over = once(perf, 'close')
  try {
    await load()
  } finally {
    perf.kill('SIGINT')
    await over
  }
  const script = ['script', '-i', file, '-F', 'ip,sym,dso', '--no-inline']
  const { stdout } = await promisify(execFile)('perf', script, { maxBuffer: 2 ** 30 }).catch((error: Error) => {
    throw new Error(`perf recorded nothing: ${complaint.trim() || error.message}`)
  })
  return summarize(readSamples(stdout), await sourceLines())
}

function summarize(samples: readonly (readonly Frame[])[], fileAt: (line: number) => string): Profile {
  const phases = new Tally()
  const files = new Tally()
  const functions = new Tally()
  for (const frames of samples) {
    phases.add(phaseOf(frames, fileAt))
    const own = frames.find(({ line }) => line !== null)
    if (own?.line !== undefined && own.line !== null) files.add(fileAt(own.line))
    functions.add(frames[0]?.symbol ?? 'unknown')
  }
  return {
    samples: samples.length,
    phases: phases.shares(samples.length),
    files: files.shares(samples.length),
    functions: functions.shares(samples.length).slice(0, 40),
  }
}

class Tally {
  readonly #counts = new Map<string, number>()
  add(name: string): void {
    this.#counts.set(name, (this.#counts.get(name) ?? 0) + 1)
  }
  shares(all: number): Share[] {
    return [...this.#counts]
      .map(([name, count]) => ({ name, share: count / all }))
      .toSorted((a, b) => b.share - a.share)
  }
}

/** From a line of the bundle to the source file: esbuild writes each file's path before its code. */
async function sourceLines(): Promise<(line: number) => string> {
  const lines = (await bundle(join(PROJECT, 'src/worker/dev.ts'))).split('\n')
  let file = 'the bundle'
  const files = lines.map((line) => {
    const [, path] = /^\s*\/\/ ((?:src|node_modules)\/\S+)$/.exec(line) ?? []
    file = path ?? file
    return file
  })
  return (line) => files[line - 1] ?? 'the bundle'
}
