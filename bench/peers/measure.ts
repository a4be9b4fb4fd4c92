// Measures one run of one way: CPU of the server for each certificate, latencies, memory, and what else ran meanwhile.

import { availableParallelism } from 'node:os'
import { cpuOf, cpuOfMachine, residentMemory, treeOf, untilIdle } from '../cpu.ts'
import { quantile } from '../spread.ts'
import { checkIssued } from './pki.ts'
import type { Issued, Way, Work } from './product.ts'

export interface Run {
  /** Milliseconds of the servers' CPU for each certificate, user and system, what goes on after the answer included. */
  readonly cpu: number
  /** Certificates a second. */
  readonly rate: number
  /** Milliseconds. */
  readonly p50: number
  readonly p99: number
  /** MiB after the run. */
  readonly memory: number
  /** Share of the machine that this command and what it started did not use: neighbours, noise. */
  readonly others: number
}

/** Throws where a certificate is not what was asked for: whoever gives a wrong one has not done the work. */
export async function measure(
  way: Way,
  works: readonly Work[],
  connections: number,
  ending: AbortSignal,
): Promise<Run> {
  const servers = way.servers.flatMap(treeOf)
  await allIdle(servers)
  const all = treeOf(process.pid)
  const before = look(servers, all)
  const { latencies, issued, wall } = await drive(works, connections, ending)
  await allIdle(servers)
  const after = look(servers, all)
  for (const one of issued) checkIssued(one, way.roots)
  const used = after.servers - before.servers
  const others = after.machine - before.machine - (after.all - before.all)
  const sorted = latencies.toSorted((a, b) => a - b)
  return {
    cpu: used / works.length,
    rate: (works.length / wall) * 1000,
    p50: quantile(sorted, 0.5),
    p99: quantile(sorted, 0.99),
    memory: servers.reduce((sum, pid) => sum + residentMemory(pid), 0),
    others: Math.max(0, others / (after.at - before.at) / availableParallelism()),
  }
}

/** Work `i` follows work `i - connections`, so that what must be in order can be. Times are milliseconds. */
async function drive(works: readonly Work[], connections: number, ending: AbortSignal) {
  const latencies: number[] = []
  const issued: Issued[] = []
  const from = performance.now()
  const lane = async (first: number): Promise<void> => {
    for (let i = first; i < works.length; i += connections) {
      ending.throwIfAborted()
      const begun = performance.now()
      const one = await works[i]?.()
      latencies.push(performance.now() - begun)
      if (one !== undefined) issued.push(one)
    }
  }
  await Promise.all(Array.from({ length: connections }, (_, first) => lane(first)))
  return { latencies, issued, wall: performance.now() - from }
}

async function allIdle(pids: readonly number[]): Promise<void> {
  for (const pid of pids) await untilIdle(pid)
}

/** Milliseconds: of CPU of the servers, of all that this command runs and of the whole machine, and now. */
function look(servers: readonly number[], all: readonly number[]) {
  const cpuOfAll = (pids: readonly number[]): number => pids.reduce((sum, pid) => sum + cpuOf(pid), 0) / 1e6
  return {
    servers: cpuOfAll(servers),
    all: cpuOfAll(all),
    machine: cpuOfMachine() / 1e6,
    at: performance.now(),
  }
}
