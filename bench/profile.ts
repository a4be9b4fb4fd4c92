// Profiles workerd under load with perf, and sorts its samples into phases and into files of the Worker.

import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { bundle } from '../src/cli/edge/bundle.ts'
import { PROJECT } from '../src/cli/edge/project.ts'
import type { Kind } from './kinds/kind.ts'
import { measure } from './measure.ts'
import { startSite } from './site.ts'
import { type Frame, phaseOf, readSamples } from './stacks.ts'

const run = promisify(execFile)

/** What V8 needs so that perf can name its functions; Miniflare passes it on. */
const PROFILED = {
  MINIFLARE_WORKERD_V8_FLAGS:
    '--perf-basic-prof --interpreted-frames-native-stack --no-logfile-per-isolate --logfile=/dev/null',
}

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

/** Requests of the kind under load on an edge of their own, after as many that warm it up. */
export async function profileKind(kind: Kind, connections: number, ending: AbortSignal): Promise<Profile> {
  await requirePerf()
  // Miniflare reads it from this process' environment.
  Object.assign(process.env, PROFILED)
  const site = await startSite({ ending })
  const file = join(tmpdir(), `muster-bench-${process.pid}.perf`)
  try {
    const count = kind.requests.full
    await kind.begin?.(site, count * 2)
    const load = { connections, status: kind.status }
    await measure(site, await kind.prepare(site, count), load)
    const shots = await kind.prepare(site, count)
    return await profile(site.pid, file, () => measure(site, shots, load))
  } finally {
    await site.stop()
    // V8 writes where its functions are under this name, in /tmp alone.
    for (const path of [file, `${file}.old`, `/tmp/perf-${site.pid}.map`]) rmSync(path, { force: true })
  }
}

async function requirePerf(): Promise<void> {
  await run('perf', ['--version']).catch(() => {
    throw new Error('a profile needs perf: install linux-perf (Debian), linux-tools-generic (Ubuntu) or perf (Fedora)')
  })
}

/** `load` runs meanwhile; `file` takes what perf records. */
async function profile(pid: number, file: string, load: () => Promise<unknown>): Promise<Profile> {
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
  const { stdout } = await run('perf', script, { maxBuffer: 2 ** 30 }).catch((error: Error) => {
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
    functions: functions.shares(samples.length).slice(0, SHOWN),
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

const SHOWN = 25

export const profileText = (name: string, { samples, phases, files, functions }: Profile): string =>
  [
    `${name}: ${samples} samples of workerd, kernel included`,
    ...part('phases', phases),
    ...part('files of the Worker: those that run or call what runs', files),
    ...part('innermost functions', functions),
  ].join('\n')

const part = (title: string, shares: readonly Share[]): string[] => [
  `  by ${title}`,
  ...shares
    .slice(0, SHOWN)
    .map(({ name, share }) => `    ${(share * 100).toFixed(1).padStart(5)} %  ${name.slice(0, 100)}`),
]
