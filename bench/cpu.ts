// Reads from /proc what processes use: CPU time, all threads, user and system; resident memory; and which are below which.

import { readdirSync, readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'

/**
 * Nanoseconds of CPU that the process has used. The scheduler counts them for each thread (schedstat); a kernel without
 * it counts ticks of 10 ms. What a thread used that has ended is lost, but workerd keeps its threads.
 */
export function cpuOf(pid: number): number {
  let sum = 0
  for (const thread of readdirSync(`/proc/${pid}/task`)) {
    const used = readSchedstat(`/proc/${pid}/task/${thread}/schedstat`)
    if (used === null) return ticksOf(pid) * NANOSECONDS_A_TICK
    sum += used
  }
  return sum
}

const NANOSECONDS_A_TICK = 10_000_000

function readSchedstat(path: string): number | null {
  try {
    return Number(readFileSync(path, 'utf8').split(' ')[0])
  } catch (error) {
    // The thread has ended since it was listed.
    if (error instanceof Error && 'code' in error && error.code === 'ESRCH') return 0
    return null
  }
}

/** Fields 14 and 15 of proc(5): utime and stime. The name before them may hold spaces. */
function ticksOf(pid: number): number {
  const text = readFileSync(`/proc/${pid}/stat`, 'utf8')
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
  return Number(fields[11]) + Number(fields[12])
}

/** Milliseconds between two looks, and CPU in nanoseconds below which nothing was going on between them. */
const LOOK = 15
const IDLE = 300_000
/** Milliseconds after which it is not waited any longer. */
const PATIENCE = 3000

/** Waits until the process has nothing more to do: writes go on after the answer, and belong to the request. */
export async function untilIdle(pid: number): Promise<void> {
  const deadline = performance.now() + PATIENCE
  for (let before = cpuOf(pid); performance.now() < deadline; ) {
    await sleep(LOOK)
    const now = cpuOf(pid)
    if (now - before < IDLE) return
    before = now
  }
}

/** Resident memory in MiB. */
export function residentMemory(pid: number): number {
  const [, kibibytes] = /^VmRSS:\s*(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? []
  return Math.round(Number(kibibytes) / 1024)
}

/** The process and all below it that are there now, from the top. */
export const treeOf = (pid: number): number[] => [pid, ...childrenOf(pid).flatMap(treeOf)]

const childrenOf = (pid: number): number[] =>
  readdirSync(`/proc/${pid}/task`).flatMap((thread) =>
    readFileSync(`/proc/${pid}/task/${thread}/children`, 'utf8').split(' ').filter(Boolean).map(Number),
  )

/** Nanoseconds that all processes of the machine have used together. */
export function cpuOfMachine(): number {
  const [line = ''] = readFileSync('/proc/stat', 'utf8').split('\n')
  // proc(5): user, nice, system, then idle and iowait, then interrupts.
  const [user = 0, nice = 0, system = 0, , , irq = 0, softirq = 0] = line.split(/\s+/).slice(1).map(Number)
  return (user + nice + system + irq + softirq) * NANOSECONDS_A_TICK
}
