// Reads the machine's two clocks together: the wall clock, which anybody can set, and the time since the machine
// started, which nobody can and which counts suspension (performance.now() stands still meanwhile on Linux).

import { uptime } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { type EpochMilliseconds, type Milliseconds, milliseconds, systemClock } from '../../protocol/time.ts'

export interface ClockReading {
  readonly wall: EpochMilliseconds
  /** Since the machine started. */
  readonly uptime: Milliseconds
}

/** What the runner knows of time; tests bring their own. */
export interface Clocks {
  readonly now: () => ClockReading
  /** Resolves after `duration` or when `wake` is aborted, never rejects. */
  readonly sleep: (duration: Milliseconds, wake: AbortSignal) => Promise<void>
}

export const systemClocks: Clocks = {
  now: () => ({ wall: systemClock(), uptime: milliseconds(uptime() * 1000) }),
  sleep: (duration, signal) => sleep(duration, undefined, { signal }).catch(() => {}),
}

/** The longest sleep: the clocks are read again after it, since a timer set for later would not see a suspension. */
export const TICK = milliseconds(30_000)

/** How long something lasted. */
export const elapsed = (since: ClockReading, now: ClockReading): Milliseconds =>
  milliseconds(Math.max(0, now.uptime - since.uptime))

/**
 * The longer of both readings, for work that may be done too early without harm. Only the wall clock shows that the host
 * paused a virtual machine, or that it was itself wrong at boot and was corrected since.
 */
export const mostElapsed = (since: ClockReading, now: ClockReading): Milliseconds =>
  milliseconds(Math.max(now.wall - since.wall, elapsed(since, now)))
