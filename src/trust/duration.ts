// Parses durations of the trust file and the CLI: Go's, with whole numbers of h, m and s in this order. Pure.

import { isDigit } from '../protocol/characters.ts'
import { type Seconds, seconds } from '../protocol/time.ts'

const UNITS = [
  ['h', 3600],
  ['m', 60],
  ['s', 1],
] as const

/** More digits than any sane number of seconds has. */
const MOST_DIGITS = 8

/** `600s`, `10m`, `1h30m`; null for anything else: a bare number, `d`, `ms`, a fraction, a sign, another order. */
export function parseDuration(text: string): Seconds | null {
  let rest = text
  let total = 0
  for (const [unit, size] of UNITS) {
    let digits = 0
    while (digits < rest.length && isDigit(rest[digits] ?? '')) digits++
    if (digits === 0 || digits > MOST_DIGITS || rest[digits] !== unit) continue
    total += Number(rest.slice(0, digits)) * size
    rest = rest.slice(digits + 1)
  }
  return text !== '' && rest === '' ? seconds(total) : null
}

/** The duration of a text in the code, such as a default. Throws where it is invalid, which is a bug. */
export function durationOf(text: string): Seconds {
  const duration = parseDuration(text)
  if (duration === null) throw new Error(`${text} is no duration`)
  return duration
}
