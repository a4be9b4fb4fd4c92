// Makes and recognizes UUIDv7 (RFC 9562 §5.7), which sort by the time of their making. No I/O.

import { hex } from './bytes.ts'
import { isHexDigit } from './characters.ts'
import { type EpochMilliseconds, type EpochSeconds, toEpochMilliseconds } from './time.ts'

export function uuidv7(now: EpochMilliseconds): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16))
  bytes[6] = 0x70 | ((bytes[6] ?? 0) & 0x0f)
  bytes[8] = 0x80 | ((bytes[8] ?? 0) & 0x3f)
  return dashed(timePrefix(now) + hex(bytes).slice(12))
}

/** The least id that could have been made at `time`: ids made earlier sort before it. */
export const firstUuidv7At = (time: EpochSeconds): string =>
  dashed(`${timePrefix(toEpochMilliseconds(time))}70008000000000000000`)

const timePrefix = (time: EpochMilliseconds): string => Math.max(0, time).toString(16).padStart(12, '0')

const dashed = (digits: string): string =>
  [digits.slice(0, 8), digits.slice(8, 12), digits.slice(12, 16), digits.slice(16, 20), digits.slice(20)].join('-')

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
