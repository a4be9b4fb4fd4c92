// Two clocks read together. The wall clock sees a suspended machine but can be set; the steady one cannot be set but
// may stand still while the machine sleeps (Linux CLOCK_MONOTONIC). Neither alone says how long something lasted.

import { setTimeout as sleep } from 'node:timers/promises'
import { type EpochMilliseconds, type Milliseconds, milliseconds, systemClock } from '../../protocol/time.ts'

export interface Moment {
  readonly wall: EpochMilliseconds
  readonly steady: Milliseconds
}

/** What the runner knows of time; tests bring their own. */
export interface Time {
  readonly now: () => Moment
  /** Resolves after `duration` or when `wake` is aborted, never rejects. */
  readonly sleep: (duration: Milliseconds, wake: AbortSignal) => Promise<void>
}

export const systemTime: Time = {
  now: () => ({ wall: systemClock(), steady: milliseconds(performance.now()) }),
  sleep: (duration, signal) => sleep(duration, undefined, { signal }).catch(() => {}),
}

/** The longer of both readings: what decides that something is due, or no longer to be relied on. */
export const mostElapsed = (since: Moment, now: Moment): Milliseconds =>
  milliseconds(Math.max(0, now.wall - since.wall, now.steady - since.steady))

/** The shorter one: what decides that something is over for good. */
export const leastElapsed = (since: Moment, now: Moment): Milliseconds =>
  milliseconds(Math.max(0, Math.min(now.wall - since.wall, now.steady - since.steady)))
