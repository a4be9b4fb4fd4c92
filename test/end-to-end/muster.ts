// Runs commands of `muster` for tests: in this process, which is quick, or as the process that an operator starts.
import { dirname, join } from 'node:path'
import { PROJECT, spawnNode } from './processes.ts'

export const MAIN = join(PROJECT, 'src/cli/main.ts')

export interface Finished {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

export interface MusterOptions {
  /** Over the environment of this process. */
  readonly env?: Readonly<Record<string, string>>
  readonly cwd?: string
  /** The program of another checkout. */
  readonly main?: string
}

let last: Promise<unknown> = Promise.resolve()

/**
 * Runs a command to its end in this process: one after another, since each has the process' output, folder and
 * environment to itself. Not for `dev`, which takes the process' signals.
 */
export function runMuster(args: readonly string[], options: MusterOptions = {}): Promise<Finished> {
  const run = last.then(() => runAlone(args, options))
  last = run.catch(() => {})
  return run
}

async function runAlone(
  args: readonly string[],
  { env = {}, cwd = PROJECT, main = MAIN }: MusterOptions,
): Promise<Finished> {
  const { runProgram }: typeof import('../../src/cli/program.ts') = await import(join(dirname(main), 'program.ts'))
  const { stdout, stderr } = process
  const before = { exit: process.exit, env: process.env, cwd: process.cwd(), exitCode: process.exitCode }
  const writes = { stdout: stdout.write, stderr: stderr.write }
  const output = { stdout: '', stderr: '' }
  try {
    stdout.write = (chunk: string | Uint8Array) => keep(output, 'stdout', chunk)
    stderr.write = (chunk: string | Uint8Array) => keep(output, 'stderr', chunk)
    process.exit = (code) => {
      throw new Exit(Number(code ?? 0))
    }
    process.env = { ...before.env, ...env }
    process.chdir(cwd)
    process.exitCode = 0
    await runProgram(args)
    return { code: Number(process.exitCode), ...output }
  } catch (error) {
    if (error instanceof Exit) return { code: error.code, ...output }
    throw error
  } finally {
    stdout.write = writes.stdout
    stderr.write = writes.stderr
    process.exit = before.exit
    process.env = before.env
    process.chdir(before.cwd)
    process.exitCode = before.exitCode
  }
}

function keep(output: { stdout: string; stderr: string }, stream: 'stdout' | 'stderr', chunk: string | Uint8Array) {
  output[stream] += chunk
  return true
}

/** What the end of the process is to a command in this process. */
class Exit extends Error {
  readonly code: number
  constructor(code: number) {
    super(`exit with ${code}`)
    this.code = code
  }
}

/** Runs a command to its end as a process. */
export async function spawnMuster(args: readonly string[], options: MusterOptions = {}): Promise<Finished> {
  const { env = {}, cwd = PROJECT, main = MAIN } = options
  const child = spawnNode(main, args, { cwd, env: { ...process.env, ...env }, stderr: 'pipe' })
  const output = { stdout: '', stderr: '' }
  child.stdout?.on('data', (chunk) => keep(output, 'stdout', chunk))
  child.stderr?.on('data', (chunk) => keep(output, 'stderr', chunk))
  const code = await new Promise<number | null>((resolve) => child.on('close', resolve))
  return { code, ...output }
}
