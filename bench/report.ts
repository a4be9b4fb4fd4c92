// Puts the figures of all runs together, for a program and as a table for people.

import { cpus } from 'node:os'
import { table } from '../src/cli/operator/table.ts'
import type { Counts } from '../test/worker/call-counts.ts'
import { type Dollars, dollarsPerMillion } from './cost.ts'
import type { Run } from './measure.ts'
import { type Spread, spreadOf } from './spread.ts'

/** The runs of one kind, in order: each figure of the floor was taken right after the one of ours. */
export interface KindRuns {
  readonly ours: readonly Run[]
  readonly floor: readonly Run[]
  /** Of the floor Worker that calls D1 and does nothing else, and of the one that does nothing; none without D1. */
  readonly d1: readonly Run[]
  readonly nothing: readonly Run[]
}

export interface KindReport extends Counts {
  /** Microseconds of workerd's CPU for a request, user and system. */
  readonly cpuUs: Spread
  readonly floorCpuUs: Spread
  /** Floor / ours, of the same run. */
  readonly limitRatio: Spread
  /** What the calls to D1 cost with Miniflare's emulation of it, and what is left of a request without. */
  readonly d1CpuUs: Spread
  readonly cpuUsWithoutD1: Spread
  readonly requestsPerSecond: Spread
  readonly p50Ms: Spread
  readonly p99Ms: Spread
  /** For a million, on Workers Paid. Its CPU is taken for the CPU here. */
  readonly dollars: Dollars
}

export function kindReport({ ours, floor, d1, nothing }: KindRuns, counts: Counts): KindReport {
  const cpu = ours.map((run) => run.cpu)
  const d1Cpu = cpu.map((_, i) => Math.max(0, (d1[i]?.cpu ?? 0) - (nothing[i]?.cpu ?? 0)))
  return {
    cpuUs: spreadOf(cpu),
    floorCpuUs: spreadOf(floor.map((run) => run.cpu)),
    limitRatio: spreadOf(
      cpu.map((own, i) => (floor[i]?.cpu ?? Number.NaN) / own),
      2,
    ),
    d1CpuUs: spreadOf(d1Cpu),
    cpuUsWithoutD1: spreadOf(cpu.map((own, i) => own - (d1Cpu[i] ?? 0))),
    requestsPerSecond: spreadOf(ours.map((run) => run.rate)),
    p50Ms: spreadOf(
      ours.map((run) => run.p50),
      1,
    ),
    p99Ms: spreadOf(
      ours.map((run) => run.p99),
      1,
    ),
    dollars: dollarsPerMillion(counts, spreadOf(cpu).median / 1000),
    ...counts,
  }
}

/** The machine that figures are of: they mean nothing without it. */
export const machine = () => ({
  cpu: cpus()[0]?.model ?? 'unknown',
  cores: cpus().length,
  node: process.version,
})

const HEADINGS = [
  'KIND',
  'CPU µs',
  'FLOOR µs',
  'RATIO',
  'OF IT D1',
  'REQ/S',
  'p50 ms',
  'p99 ms',
  'WAITS FOR',
  'ROWS',
  '$/M',
]

export const kindTable = (kinds: Readonly<Record<string, KindReport>>): string =>
  table(
    HEADINGS,
    Object.entries(kinds).map(([name, kind]) => [
      name,
      text(kind.cpuUs),
      text(kind.floorCpuUs),
      text(kind.limitRatio),
      String(kind.d1CpuUs.median),
      text(kind.requestsPerSecond),
      text(kind.p50Ms),
      text(kind.p99Ms),
      waits(kind),
      `${kind.d1.rowsWritten} + ${kind.object.rowsWritten}`,
      kind.dollars.total.toFixed(2),
    ]),
  )

const text = ({ min, median, max }: Spread): string => `${min}/${median}/${max}`

/** Round trips one after another, before the answer. */
const waits = ({ d1, object, kv }: Counts): string => {
  const all = [
    [d1.waited, 'D1'],
    [object.waited, 'object'],
    [kv.waited, 'KV'],
  ] as const
  const some = all.filter(([count]) => count > 0).map(([count, place]) => `${count} ${place}`)
  return some.length === 0 ? 'nothing' : some.join(', ')
}

export const LEGEND = `
Each figure is min/median/max of the runs; another run, another machine, other neighbours give others. CPU is workerd's
alone, user and system, for a request, with what it does after the answer. RATIO is the floor's CPU / ours in the same run.
OF IT D1: the calls to D1 with Miniflare's emulation of it. ROWS: written in D1 + by the object, for one request.
$/M: dollars for a million at list prices, logs left out.`
