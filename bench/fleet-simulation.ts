// Plays the renewals of a fleet in virtual time. The schedule is the runner's own (src/runner/renewal/lifecycle.ts); only
// the control plane is made up: it renews at once, or is away.

import { type EpochMilliseconds, epochMilliseconds, type Milliseconds, milliseconds } from '../src/protocol/time.ts'
import type { ClockReading } from '../src/runner/environment/clock.ts'
import { afterFailure, afterSuccess, nextStep, type Policy, type State } from '../src/runner/renewal/lifecycle.ts'

/** No renewal is answered meanwhile, or each with 503 and this Retry-After. Times count from the first boot. */
export interface Outage {
  readonly from: Milliseconds
  readonly until: Milliseconds
  readonly retryAfter: Milliseconds | null
}

export interface Fleet {
  readonly runners: number
  /** Of each certificate. */
  readonly life: Milliseconds
  /** All runners boot in this time, evenly spread, and have a new certificate then. */
  readonly bootsWithin: Milliseconds
  readonly outage: Outage | null
  /** How long the simulation goes on, from the first boot. */
  readonly lasts: Milliseconds
  readonly seed: number
}

/** What the control plane meets, by second from the first boot, and what became of the runners. */
export interface Traffic {
  /** Renewals that were tried. */
  readonly tried: Uint32Array
  /** Renewals that gave a certificate. */
  readonly renewed: Uint32Array
  /** Runners whose window passed: they have to enroll anew. */
  readonly lost: number
  /** When the last runner that had failed renewed; 0 where none failed. From the first boot. */
  readonly caughtUpAt: Milliseconds
  /** How long runners had an ended certificate, summed over the fleet. */
  readonly withoutCertificate: Milliseconds
}

/** With evidence that serves once, as a bootstrap token does: without its identity such a runner is lost. */
const POLICY: Policy = { renews: true, enrollsAgain: false, waitsForOperator: false, patience: 3 }
const NEW: State = { lifetime: null, request: null }
/** Any time will do. */
const FIRST_BOOT: EpochMilliseconds = epochMilliseconds(Date.UTC(2026, 0, 1))

/** Runners share nothing but the control plane, which takes all that comes: so they are played one after another. */
export function simulateFleet(fleet: Fleet): Traffic {
  const seconds = Math.ceil(fleet.lasts / 1000)
  const traffic = {
    tried: new Uint32Array(seconds),
    renewed: new Uint32Array(seconds),
    lost: 0,
    caughtUpAt: milliseconds(0),
    withoutCertificate: milliseconds(0),
  }
  const random = numbersFrom(fleet.seed)
  for (let i = 0; i < fleet.runners; i++) {
    playRunner(fleet, Math.floor((fleet.bootsWithin * i) / fleet.runners), random, traffic)
  }
  return traffic
}

type Counting = { -readonly [name in keyof Traffic]: Traffic[name] }

function playRunner({ life, outage, lasts }: Fleet, boot: number, random: () => number, traffic: Counting): void {
  let now = boot
  let renewedAt = boot
  let state = afterSuccess(life, readingAt(now), random(), NEW)
  for (;;) {
    const step = nextStep(POLICY, state, readingAt(now))
    if (step.do === 'exit') {
      traffic.lost++
      return
    }
    if (step.do === 'wait') {
      now += Math.ceil(step.for)
      if (now >= lasts) return
      continue
    }
    countIn(traffic.tried, now)
    if (outage !== null && now >= outage.from && now < outage.until) {
      const failure = { work: step.work, verdict: 'later' as const, retryAfter: outage.retryAfter }
      const after = afterFailure(POLICY, state, failure, readingAt(now), random())
      if (!after.ok) throw new Error('no answer ended a runner')
      state = after.value
      continue
    }
    countIn(traffic.renewed, now)
    if (state.request !== null) traffic.caughtUpAt = milliseconds(Math.max(traffic.caughtUpAt, now))
    traffic.withoutCertificate = milliseconds(traffic.withoutCertificate + Math.max(0, now - renewedAt - life))
    renewedAt = now
    state = afterSuccess(life, readingAt(now), random(), state)
  }
}

const readingAt = (time: number): ClockReading => ({
  wall: epochMilliseconds(FIRST_BOOT + time),
  uptime: milliseconds(time),
})

function countIn(seconds: Uint32Array, time: number): void {
  const second = Math.floor(time / 1000)
  seconds[second] = (seconds[second] ?? 0) + 1
}

/** Numbers in [0, 1) that a seed repeats (Park and Miller's generator). */
function numbersFrom(seed: number): () => number {
  let state = seed
  return () => {
    state = (state * 48_271) % (2 ** 31 - 1)
    return state / (2 ** 31 - 1)
  }
}

/** Requests per second, from one second to before another. */
export const meanOf = (seconds: Uint32Array, from: number, until: number): number =>
  sum(seconds.subarray(from, until)) / (until - from)

/** How long a peak lasts, in seconds. In a single second chance alone makes a peak of a small fleet. */
const PEAK = 10

/** The most requests per second over ten seconds. */
export function peakOf(seconds: Uint32Array, from: number, until: number): number {
  let most = 0
  for (let at = from; at + PEAK <= until; at += PEAK) most = Math.max(most, meanOf(seconds, at, at + PEAK))
  return most
}

const sum = (numbers: Uint32Array): number => numbers.reduce((total, number) => total + number, 0)
