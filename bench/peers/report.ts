// Puts the runs of all ways together, and says which goals are met.

import { type Spread, spreadOf } from '../spread.ts'
import type { Missing, Pair } from './product.ts'
import type { WayRuns } from './rounds.ts'

export interface WayReport {
  readonly pair: Pair
  readonly name: string
  readonly proven: string
  readonly stored: string
  /** Milliseconds of the servers' CPU for a certificate. */
  readonly cpuMs: Spread
  readonly certificatesPerCpuSecond: Spread
  readonly certificatesPerSecond: Spread
  readonly p50Ms: Spread
  readonly p99Ms: Spread
  readonly residentMiB: number
  /** Percent of the machine that others used meanwhile. */
  readonly othersPercent: Spread
  /** D1's emulation is counted in it, or subtracted; null for a way that does not use it. */
  readonly emulation: 'counted' | 'subtracted' | null
}

/** A way of Muster that uses D1 has two rows, with its emulation and without. */
export const reportsOf = (results: readonly WayRuns[]): WayReport[] =>
  results.flatMap((result) => {
    const usesD1 = result.emulation.some((cost) => cost > 0)
    if (!usesD1) return [report(result, null)]
    return [report(result, 'counted'), report(result, 'subtracted')]
  })

function report({ way, runs, emulation: costs }: WayRuns, emulation: WayReport['emulation']): WayReport {
  const cpu = runs.map((run, i) => run.cpu - (emulation === 'subtracted' ? (costs[i] ?? 0) : 0))
  const spread = (of: 'rate' | 'p50' | 'p99', digits: number): Spread =>
    spreadOf(
      runs.map((run) => run[of]),
      digits,
    )
  return {
    pair: way.pair,
    name: way.name,
    proven: way.proven,
    stored: way.stored,
    cpuMs: spreadOf(cpu, 2),
    certificatesPerCpuSecond: spreadOf(cpu.map((ms) => 1000 / ms)),
    certificatesPerSecond: spread('rate', 0),
    p50Ms: spread('p50', 1),
    p99Ms: spread('p99', 1),
    residentMiB: runs.at(-1)?.memory ?? Number.NaN,
    othersPercent: spreadOf(runs.map(({ others }) => others * 100)),
    emulation,
  }
}

export interface Goal {
  readonly pair: Pair
  readonly muster: string
  readonly peer: string
  readonly emulation: WayReport['emulation']
  /** Milliseconds of CPU for a certificate, medians. */
  readonly musterMs: number
  readonly peerMs: number
  readonly holds: boolean
}

/** Ahead of every peer of its pair: of step-ca without D1's emulation, of the others with it. */
export function goalsOf(reports: readonly WayReport[]): Goal[] {
  const isMuster = ({ name }: WayReport): boolean => name.startsWith('Muster')
  const without = reports.filter((one) => isMuster(one) && one.emulation !== 'counted')
  const counted = reports.filter((one) => isMuster(one) && one.emulation !== 'subtracted')
  return reports
    .filter((one) => !isMuster(one))
    .flatMap((peer) =>
      (peer.name.startsWith('step-ca') ? without : counted)
        .filter(({ pair }) => pair === peer.pair)
        .map((muster) => ({
          pair: peer.pair,
          muster: muster.name,
          peer: peer.name,
          emulation: muster.emulation,
          musterMs: muster.cpuMs.median,
          peerMs: peer.cpuMs.median,
          holds: muster.cpuMs.median < peer.cpuMs.median,
        })),
    )
}

/** All that `--json` prints. */
export interface Comparison {
  readonly cpu: string
  readonly cores: number
  readonly node: string
  readonly loadAverage: { readonly before: readonly number[]; readonly after: readonly number[] }
  readonly connections: number
  readonly requests: number
  readonly runs: number
  readonly seconds: number
  /** Peer → version, and where its program comes from. */
  readonly programs: Readonly<Record<string, string>>
  readonly ways: readonly WayReport[]
  readonly missing: readonly Missing[]
  readonly goals: readonly Goal[]
}
