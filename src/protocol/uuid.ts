// Makes and recognizes UUIDv7 (RFC 9562 §5.7), which sort by the time of their making. No I/O.

import { isHexDigit } from './characters.ts'
import { type EpochMilliseconds, type EpochSeconds, toEpochMilliseconds } from './time.ts'

/** Random bits and variant stand where a UUIDv4 has them, too. */
export function uuidv7(now: EpochMilliseconds): string {
  return dashed(timePrefix(now), `7${crypto.randomUUID().slice(15)}`)
}

/** The least id that could have been made at `time`: ids made earlier sort before it. */
export const firstUuidv7At = (time: EpochSeconds): string =>
  dashed(timePrefix(toEpochMilliseconds(time)), '7000-8000-000000000000')

const timePrefix = (time: EpochMilliseconds): string => Math.max(0, time).toString(16).padStart(12, '0')

const dashed = (time: string, rest: string): string => `${time.slice(0, 8)}-${time.slice(8)}-${rest}`

/** The text form of a UUIDv7, lower case. */
export function isUuidv7(text: string): boolean {
  if (text.length !== 36) return false
  for (let i = 0; i < 36; i++) {
    const c = text[i] as string
    if (i === 8 || i === 13 || i === 18 || i === 23) {
      if (c !== '-') return false
    } else if (!isHexDigit(c)) return false
  }
  return text[14] === '7' && '89ab'.includes(text[19] as string)
}
