// Caches the ban list in isolate memory, as a value, never as a promise: no request may wait on another's.

import { FETCH_TIMEOUT } from '../../protocol/limits.ts'
import { type Outcome, refuse } from '../../protocol/refusals.ts'
import { ok } from '../../protocol/result.ts'
import {
  type Clock,
  type EpochSeconds,
  minutes,
  type Seconds,
  seconds,
  toEpochSeconds,
  toMilliseconds,
} from '../../protocol/time.ts'
import type { BanList } from '../../trust/bans.ts'
import { logFailure } from '../telemetry/log.ts'

/** A ban takes effect in every isolate within this time. */
const FRESH = seconds(30)
/** From then on a list is read anew behind the answers: while requests come, none of them waits for the database. */
const RENEWED = seconds(20)
/** How long an old list is used while the database is away, so that an outage does not end a fleet. */
const USABLE = minutes(15)
/** Least time between two attempts. */
const PAUSE = seconds(5)

export function keepBanList(
  load: (now: EpochSeconds) => Promise<BanList>,
  clock: Clock,
): (waitUntil: (work: Promise<unknown>) => void) => Promise<Outcome<BanList>> {
  let kept: BanList | null = null
  let failedAt: EpochSeconds | null = null
  let renewedAt: EpochSeconds | null = null

  async function read(now: EpochSeconds): Promise<void> {
    try {
      kept = await inTime(load(now), FETCH_TIMEOUT)
      failedAt = null
    } catch (error) {
      failedAt = now
      logFailure('ban list not loaded', error)
    }
  }

  return async (waitUntil) => {
    const now = toEpochSeconds(clock())
    // `at` may lie in the future, where the clock was set back.
    const isWithin = (at: EpochSeconds, span: Seconds) => Math.abs(now - at) <= span
    if (kept !== null && isWithin(kept.at, FRESH)) {
      if (!isWithin(kept.at, RENEWED) && (renewedAt === null || !isWithin(renewedAt, PAUSE))) {
        renewedAt = now
        waitUntil(read(now))
      }
      return ok(kept)
    }
    if (failedAt === null || !isWithin(failedAt, PAUSE)) await read(now)
    return kept !== null && isWithin(kept.at, USABLE) ? ok(kept) : refuse('storage_unavailable')
  }
}

/** Rejects where the database does not answer within `patience`. */
export async function inTime<T>(work: Promise<T>, patience: Seconds): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | null = null
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error('no answer in time')), toMilliseconds(patience))
  })
  try {
    return await Promise.race([work, late])
  } finally {
    clearTimeout(timer)
  }
}
