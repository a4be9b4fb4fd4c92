// Measures one run of a kind of request: CPU of workerd for each, requests a second, latencies.

import { cpuOf, untilIdle } from './cpu.ts'
import { type Shot, send } from './load.ts'
import { quantile } from './spread.ts'

export interface Run {
  /** Microseconds of workerd's CPU for each request, user and system; the writes after the answer included. */
  readonly cpu: number
  /** Requests a second. */
  readonly rate: number
  /** Milliseconds. */
  readonly p50: number
  readonly p99: number
}

export interface Target {
  readonly url: string
  /** Process id of workerd. */
  readonly pid: number
}

export async function measure(
  { url, pid }: Target,
  shots: readonly Shot[],
  options: { readonly connections: number; readonly status: number },
): Promise<Run> {
  await untilIdle(pid)
  const before = cpuOf(pid)
  const { latencies, wall } = await send(url, shots, options)
  await untilIdle(pid)
  const used = cpuOf(pid) - before
  const sorted = latencies.toSorted((a, b) => a - b)
  return {
    cpu: used / shots.length / 1000,
    rate: (shots.length / wall) * 1000,
    p50: quantile(sorted, 0.5),
    p99: quantile(sorted, 0.99),
  }
}
