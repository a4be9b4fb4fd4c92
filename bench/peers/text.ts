// Lays a comparison out for people.

import { table } from '../../src/cli/operator/table.ts'
import type { Spread } from '../spread.ts'
import type { Pair } from './product.ts'
import type { Comparison, Goal, WayReport } from './report.ts'

export function textOf({ ways, missing, goals, programs, ...about }: Comparison): string {
  const { before, after } = about.loadAverage
  return [
    wayTable(ways),
    ...missing.map(({ name, why }) => `${name}: not measured: ${why}`),
    '',
    goalTable(goals),
    LEGEND,
    '',
    ...Object.entries(programs).map(([name, program]) => `${name}: ${program}`),
    `${about.cpu}, ${about.cores} cores; load average ${loads(before)} before, ${loads(after)} after`,
    `${about.requests} certificates a run, ${about.connections} at a time; ${about.runs} runs after a longer one to warm up`,
  ].join('\n')
}

const loads = (averages: readonly number[]): string => averages.map((one) => one.toFixed(1)).join(' ')

const ORDER: readonly Pair[] = ['renewal', 'bootstrap token', 'kubernetes token', 'nothing proven']
const inOrder = <T extends { readonly pair: Pair }>(rows: readonly T[]): T[] =>
  rows.toSorted((a, b) => ORDER.indexOf(a.pair) - ORDER.indexOf(b.pair))

const HEADINGS = ['PAIR', 'WAY', 'PROVEN', 'STORED', 'CPU ms', '/ CPU s', '/ s', 'p50 ms', 'p99 ms', 'MiB', 'OTHERS']

const wayTable = (ways: readonly WayReport[]): string =>
  table(
    HEADINGS,
    inOrder(ways).map((way) => {
      const cpu = [nameOf(way), way.proven, way.stored, text(way.cpuMs), String(way.certificatesPerCpuSecond.median)]
      // What is subtracted from CPU says nothing of time.
      if (way.emulation === 'subtracted') return [way.pair, ...cpu]
      const times = [way.certificatesPerSecond, way.p50Ms, way.p99Ms].map(({ median }) => String(median))
      return [way.pair, ...cpu, ...times, String(way.residentMiB), `${way.othersPercent.median} %`]
    }),
  )

const text = ({ min, median, max }: Spread): string => [min, median, max].map((ms) => ms.toFixed(2)).join(' / ')

const nameOf = ({ name, emulation }: Pick<WayReport, 'name' | 'emulation'>): string =>
  emulation === 'subtracted' ? `${name}, without D1` : name

const goalTable = (goals: readonly Goal[]): string =>
  table(
    ['PAIR', 'GOAL', 'ms', 'PEER ms', 'RESULT'],
    inOrder(goals).map(({ pair, muster, peer, emulation, musterMs, peerMs, holds }) => [
      pair,
      `${nameOf({ name: muster, emulation })}, ahead of ${peer}`,
      musterMs.toFixed(2),
      peerMs.toFixed(2),
      holds ? 'holds' : 'does not hold',
    ]),
  )

const LEGEND = `
CPU is user and system time of the server's process and its children for a certificate, what goes on after the answer
included: min / median / max of the runs. The other figures are medians; --json has their spread. MiB: resident at the end.
OTHERS: share of the machine that this command and what it started did not use; CPU rises by 10 to 60 % under neighbours.
What is not comparable:
- Muster's own rows count workerd behind plain http, as Cloudflare's edge ends TLS before a Worker. "With its TLS" adds the
  process of \`muster dev\`, a terminator in Node that asks for client certificates. step-ca and SPIRE end TLS themselves, on
  a fresh connection for each certificate; OpenBao and cfssl speak plain http here.
- D1 is Miniflare's emulation, in the same workerd. "Without D1" subtracts what a Worker costs that makes the same calls to
  it and nothing else, in the same round. The peers' own databases are counted.
- Renewals go to 64 runners in turn, and each shows the certificate of the answer before. Muster's objects are in memory.
- OpenBao's certificate takes two requests, a login and the CSR, on one connection. cfssl proves and keeps nothing.`
