// The ban list as an isolate keeps it: a value in memory, never a promise, since no request may wait on another's.

import { FETCH_TIMEOUT } from '../../protocol/limits.ts'
import { type Outcome, refuse } from '../../protocol/refusals.ts'
import { ok } from '../../protocol/result.ts'
import {
  type Clock,
  type EpochSeconds,
  minutes,
  type Seconds,
  seconds,
  subtractSeconds,
  toEpochSeconds,
  toMilliseconds,
} from '../../protocol/time.ts'
import type { BanList } from '../../trust/bans.ts'
import { logFailure } from '../telemetry/log.ts'

/** A ban counts everywhere after so long. */
const FRESH = seconds(30)
/** With the database away an old list still serves those who are in: an outage must not end a fleet. */
const USABLE = minutes(15)
/** With the database away it is asked so often at most. */
const PAUSE = seconds(5)

export function keepBanList(
  load: (now: EpochSeconds) => Promise<BanList>,
  clock: Clock,
): () => Promise<Outcome<BanList>> {
  let kept: BanList | null = null
  let failedAt: EpochSeconds | null = null
  return async () => {
    const now = toEpochSeconds(clock())
    const within = (age: Seconds) => kept !== null && kept.at >= subtractSeconds(now, age)
    if (kept !== null && within(FRESH)) return ok(kept)
    if (failedAt === null || failedAt < subtractSeconds(now, PAUSE)) {
      try {
        kept = await inTime(load(now))
        failedAt = null
        return ok(kept)
      } catch (error) {
        failedAt = now
        logFailure('ban list not loaded', error)
      }
    }
    return kept !== null && within(USABLE) ? ok(kept) : refuse('storage_unavailable')
  }
}

/** A database that hangs is away, too. */
async function inTime<T>(work: Promise<T>): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | null = null
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error('no answer in time')), toMilliseconds(FETCH_TIMEOUT))
  })
  try {
    return await Promise.race([work, late])
  } finally {
    clearTimeout(timer)
  }
}
