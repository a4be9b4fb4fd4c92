// Reads the machine's two clocks together. The wall clock sees a suspended machine but can be set; the monotonic one
// cannot be set but may stand still while the machine sleeps (Linux CLOCK_MONOTONIC). Neither alone says how long
// something lasted.

import { setTimeout as sleep } from 'node:timers/promises'
import { type EpochMilliseconds, type Milliseconds, milliseconds, systemClock } from '../../protocol/time.ts'

export interface ClockReading {
  readonly wall: EpochMilliseconds
  readonly monotonic: Milliseconds
}

/** What the runner knows of time; tests bring their own. */
export interface Clocks {
  readonly now: () => ClockReading
  /** Resolves after `duration` or when `wake` is aborted, never rejects. */
  readonly sleep: (duration: Milliseconds, wake: AbortSignal) => Promise<void>
}

export const systemClocks: Clocks = {
  now: () => ({ wall: systemClock(), monotonic: milliseconds(performance.now()) }),
  sleep: (duration, signal) => sleep(duration, undefined, { signal }).catch(() => {}),
}

/** The longest sleep: the clocks are read again after it, since a timer set for later would not see a suspension. */
export const TICK = milliseconds(30_000)

/** The longer of both readings: what decides that something is due, or no longer to be relied on. */
export const mostElapsed = (since: ClockReading, now: ClockReading): Milliseconds =>
  milliseconds(Math.max(0, now.wall - since.wall, now.monotonic - since.monotonic))

/** The shorter one: what decides that something is over for good. */
export const leastElapsed = (since: ClockReading, now: ClockReading): Milliseconds =>
  milliseconds(Math.max(0, Math.min(now.wall - since.wall, now.monotonic - since.monotonic)))
