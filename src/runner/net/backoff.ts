// Computes how long to wait after a failed attempt: exponential backoff, or what Retry-After asks for. Pure.

import { type EpochMilliseconds, type Milliseconds, milliseconds } from '../../protocol/time.ts'

const FIRST = 1000
export const BACKOFF_CEILING = milliseconds(5 * 60 * 1000)
const JITTER = 0.25
/** An honest server asks for minutes; a broken proxy's date may lie years ahead. */
const LONGEST_ASKED = milliseconds(60 * 60 * 1000)

/** After the `failures`-th failure in a row (1, 2, …): 1 s, doubling to 5 min, ±25 %. `random` is in [0, 1). */
export function backoff(failures: number, random: number): Milliseconds {
  const step = Math.min(BACKOFF_CEILING, FIRST * 2 ** Math.min(failures - 1, 30))
  return milliseconds(Math.round(step * (1 - JITTER + 2 * JITTER * random)))
}

/**
 * A `Retry-After` header (RFC 9110 §10.2.3): seconds or an HTTP date. Null where it asks for nothing: "at once", for
 * ever, would be no backoff.
 */
export function parseRetryAfter(header: string | undefined, now: EpochMilliseconds): Milliseconds | null {
  const text = header?.trim() ?? ''
  // Date.parse takes nearly anything for a date.
  const wait = isDigits(text) ? Number(text) * 1000 : text.endsWith(' GMT') ? Date.parse(text) - now : 0
  return wait >= FIRST ? milliseconds(Math.min(LONGEST_ASKED, wait)) : null
}

function isDigits(text: string): boolean {
  for (const c of text) if (c < '0' || c > '9') return false
  return text !== ''
}
