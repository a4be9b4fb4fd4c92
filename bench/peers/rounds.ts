// Measures all ways in rounds, one after another in each, so that what else the machine does meets all of them.

import { messageOf } from '../../src/node/errors.ts'
import type { Emulation } from './emulation.ts'
import { measure, type Run } from './measure.ts'
import type { MusterWay } from './muster.ts'
import type { Missing, Way } from './product.ts'

export interface Plan {
  readonly muster: readonly MusterWay[]
  readonly peers: readonly Way[]
  readonly emulation: Emulation
  readonly requests: number
  /** Beside a first one of WARM_UP requests or more, which is left out. */
  readonly runs: number
  readonly connections: number
  readonly ending: AbortSignal
  readonly say: (what: string) => void
}

export interface WayRuns {
  readonly way: Way
  readonly runs: Run[]
  /** Milliseconds of CPU of D1's emulation in each run; 0 for a peer. */
  readonly emulation: number[]
}

/** V8 has compiled the Worker by then: a Muster that is just started takes 1.3 times the CPU. */
export const WARM_UP = 1600

/** A way of a peer that fails is left out from then on; one of Muster's throws. */
export async function measureRounds(plan: Plan): Promise<{ measured: WayRuns[]; missing: Missing[] }> {
  const { muster, peers, emulation, requests, runs, connections, ending, say } = plan
  const missing: Missing[] = []
  let measured = [...muster, ...peers].map((way): WayRuns => ({ way, runs: [], emulation: [] }))
  for (let round = 0; round <= runs; round++) {
    say(round === 0 ? 'warming up' : `run ${round} of ${runs}`)
    const count = round === 0 ? Math.max(WARM_UP, requests) : requests
    const costs = new Map<Way, number>()
    for (const way of muster) {
      ending.throwIfAborted()
      const alike = muster.find(({ kind }) => kind === way.kind) ?? way
      costs.set(way, costs.get(alike) ?? (await emulation.measure(way.kind, count)))
    }
    for (const one of measured) {
      const { way } = one
      try {
        const run = await measure(way, await way.prepare(count), connections, ending)
        if (round === 0) continue
        one.runs.push(run)
        one.emulation.push(costs.get(way) ?? 0)
      } catch (error) {
        ending.throwIfAborted()
        const why = `${way.pair}: ${messageOf(error)}`
        if (!peers.includes(way)) throw new Error(`${way.name}, ${why}`, { cause: error })
        measured = measured.filter((other) => other !== one)
        missing.push({ name: way.name, why })
      }
    }
  }
  return { measured, missing }
}
