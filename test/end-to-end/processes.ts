// Starts processes and edges for tests, and ends them with the test file that started them, however it ends.
import { type ChildProcess, execFileSync, type SpawnOptions, spawn } from 'node:child_process'
import { createServer } from 'node:net'
import { fileURLToPath } from 'node:url'

export const PROJECT = fileURLToPath(new URL('../../', import.meta.url))

const open = new Set<() => unknown>()

/** Has `close` called when the test file ends, unless the function that it gives is called before. */
export function closeInTheEnd(close: () => unknown): () => void {
  open.add(close)
  return () => open.delete(close)
}

/** Ends all that is still open; called after each test file. */
export async function closeAll(): Promise<void> {
  const left = [...open]
  open.clear()
  await Promise.allSettled(left.map((close) => close()))
}

export interface NodeOptions {
  /** Default: the environment of this process. */
  readonly env?: Readonly<Record<string, string | undefined>>
  readonly cwd?: string
  /** Default: nobody reads it. */
  readonly stderr?: 'pipe' | 'inherit' | 'ignore'
  /** A shell's command, such as `ulimit -f 6`, that holds for the process. */
  readonly limit?: string
}

/** Starts a program of this project in a Node of its own, whose output can be read. */
export function spawnNode(program: string, args: readonly string[], options: NodeOptions = {}): ChildProcess {
  const { env = process.env, cwd = PROJECT, stderr = 'ignore' } = options
  const { NODE_COMPILE_CACHE } = process.env
  const node = [process.execPath, program, ...args]
  const [command = '', ...rest] =
    options.limit === undefined ? node : ['/bin/sh', '-c', `${options.limit}; exec "$0" "$@"`, ...node]
  return spawnProgram(command, rest, {
    cwd,
    stdio: ['ignore', 'pipe', stderr],
    env: { ...(NODE_COMPILE_CACHE && { NODE_COMPILE_CACHE }), ...env },
  })
}

/** Starts a program that does not outlive this process, however that ends. */
export function spawnProgram(command: string, args: readonly string[], options: SpawnOptions): ChildProcess {
  const child = spawn(command, args, options)
  const isOver = closeInTheEnd(() => child.kill('SIGKILL'))
  const dog = watch(child.pid)
  child.on('exit', () => {
    isOver()
    dog.kill('SIGKILL')
  })
  return child
}

/** Starts a command as a terminal does, in a process group of its own; what is left of the group is killed in the end. */
export function spawnGroup(command: string, args: readonly string[]): ChildProcess {
  const child = spawn(command, args, { cwd: PROJECT, stdio: ['pipe', 'pipe', 'ignore'], detached: true })
  const dog = watch(-(child.pid ?? 0))
  closeInTheEnd(() => dog.stdin?.end())
  return child
}

/** Kills the process, or the group where it is negative, when this one is gone, be it by -9: a shell waits on a pipe. */
function watch(pid: number | undefined): ChildProcess {
  const script = 'read -r _; kill -9 "$0"'
  const dog = spawn('/bin/sh', ['-c', script, String(pid)], { stdio: ['pipe', 'ignore', 'ignore'], detached: true })
  dog.stdin?.on('error', () => {})
  return dog
}

interface Row {
  readonly pid: number
  readonly parent: number
}

/** What runs on this machine; a dead process that nobody asked after is none. */
const running = (): Row[] =>
  execFileSync('ps', ['-A', '-o', 'pid=,ppid=,stat='], { encoding: 'utf8' })
    .split('\n')
    .map((line) => line.trim().split(/\s+/))
    .filter(([, , state]) => state !== undefined && !state.startsWith('Z'))
    .map(([pid, parent]) => ({ pid: Number(pid), parent: Number(parent) }))

export const isRunning = (pid: number): boolean => running().some((row) => row.pid === pid)

export const childrenOf = (pid: number): number[] =>
  running()
    .filter(({ parent }) => parent === pid)
    .map((row) => row.pid)

/** The process and all below it, from the top. */
export const treeOf = (pid: number): number[] => [pid, ...childrenOf(pid).flatMap(treeOf)]

/** A port on loopback that nobody listens on at this moment. */
export async function freePort(): Promise<number> {
  const server = createServer()
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(0, '127.0.0.1', () => {
      const address = server.address()
      server.close(() => resolve(typeof address === 'object' && address !== null ? address.port : 0))
    })
  })
}
