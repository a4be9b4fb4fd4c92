// What the simulation of a fleet shows: of a ten-minute outage of everything, and of a restart of all runners.

import { milliseconds, minutes, seconds, toMilliseconds } from '../src/protocol/time.ts'
import { type Fleet, meanOf, type Outage, peakOf, simulateFleet } from './fleet-simulation.ts'

const LIFE = toMilliseconds(minutes(15))
/** Two thirds of the life, less half a tenth of it: how far apart a runner's renewals are, on the average. */
const BETWEEN = milliseconds((LIFE * 37) / 60)
/** In seconds from the first boot. */
const AWAY = { from: minutes(30), until: minutes(40) }
const END = minutes(85)

/** Of renewals in a second; peaks are those of ten seconds. */
export interface OutageFigures {
  readonly steady: { readonly mean: number; readonly peakOverMean: number }
  /** Tries in a second while the control plane was away, over the renewals in a second before. */
  readonly triesOverSteady: { readonly mean: number; readonly peak: number }
  readonly lost: number
  /** Average over the fleet. */
  readonly secondsWithoutCertificate: number
  /** Until the last runner has renewed. The mean is that of the catching up, and `peakOverSteady` sees it from before. */
  readonly catchingUp: { readonly seconds: number; readonly peakOverMean: number; readonly peakOverSteady: number }
  /** From then on, over the mean from before. */
  readonly afterwards: { readonly peakOverMean: number }
}

/** A ten-minute outage. `retryAfter`: what the answers ask for; null: there are none. */
export function outageFigures(runners: number, retryAfter: Outage['retryAfter'], seed: number): OutageFigures {
  const outage = { from: toMilliseconds(AWAY.from), until: toMilliseconds(AWAY.until), retryAfter }
  const traffic = simulateFleet(fleetOf(runners, BETWEEN, outage, seed))
  const { tried, renewed, lost } = traffic
  const before = [minutes(15), AWAY.from] as const
  const steady = meanOf(renewed, ...before)
  const caughtUp = Math.ceil(traffic.caughtUpAt / 1000)
  const catchUp = [AWAY.until, caughtUp] as const
  return {
    steady: { mean: steady, peakOverMean: peakOf(renewed, ...before) / steady },
    triesOverSteady: {
      mean: meanOf(tried, AWAY.from, AWAY.until) / steady,
      peak: peakOf(tried, AWAY.from, AWAY.until) / steady,
    },
    lost,
    secondsWithoutCertificate: traffic.withoutCertificate / 1000 / runners,
    catchingUp: {
      seconds: caughtUp - AWAY.until,
      peakOverMean: peakOf(renewed, ...catchUp) / meanOf(renewed, ...catchUp),
      peakOverSteady: peakOf(renewed, ...catchUp) / steady,
    },
    afterwards: { peakOverMean: peakOf(renewed, caughtUp, END) / steady },
  }
}

export interface RestartFigures {
  /** In each of the intervals after the restart: the renewals of its busiest ten seconds over the mean. */
  readonly peakOverMean: readonly number[]
}

/** All runners start within ten seconds and enroll anew. */
export function restartFigures(runners: number, seed: number): RestartFigures {
  const { renewed } = simulateFleet(fleetOf(runners, toMilliseconds(seconds(10)), null, seed))
  const mean = runners / (BETWEEN / 1000)
  const starts = Array.from({ length: 8 }, (_, i) => Math.floor((BETWEEN / 1000) * (i + 0.5)))
  return { peakOverMean: starts.map((at) => peakOf(renewed, at, at + BETWEEN / 1000) / mean) }
}

const fleetOf = (runners: number, bootsWithin: Fleet['bootsWithin'], outage: Outage | null, seed: number): Fleet => ({
  runners,
  life: LIFE,
  bootsWithin,
  outage,
  lasts: toMilliseconds(END),
  seed,
})
