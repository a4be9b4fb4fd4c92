// ASN.1 character strings and times as certificates and CSRs carry them. Pure.

import type { Bytes } from '../../protocol/base64url.ts'
import { type EpochSeconds, epochSeconds } from '../../protocol/time.ts'
import { type Element, TAG } from './der.ts'

/** The text of a character string, or null for another element or octets that are no text of its type. */
export function textOf(element: Element | undefined): string | null {
  switch (element?.tag) {
    case TAG.utf8String:
      return decodeUtf8(element.contents)
    case TAG.printableString:
    case TAG.ia5String:
    case TAG.teletexString:
      // Alphabets are not held to: what is compared with such a text is ASCII, which all three share, and compared whole.
      return decodeWide(element.contents, 1)
    case TAG.bmpString:
      return decodeWide(element.contents, 2)
    case TAG.universalString:
      return decodeWide(element.contents, 4)
    default:
      return null
  }
}

function decodeUtf8(contents: Bytes): string | null {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(contents)
  } catch {
    return null
  }
}

/** Characters of `width` octets each, big-endian. */
function decodeWide(contents: Bytes, width: number): string | null {
  if (contents.length % width !== 0) return null
  let text = ''
  for (let at = 0; at < contents.length; at += width) {
    let code = 0
    for (let i = 0; i < width; i++) code = code * 256 + (contents[at + i] as number)
    if (code > 0x10ffff) return null
    text += String.fromCodePoint(code)
  }
  return text
}

/** UTCTime reaches to the end of 2049 (RFC 5280 §4.1.2.5). */
const GENERALIZED_TIME_YEAR = 2050

/** Whether a certificate writes `time` as GeneralizedTime. */
export const isGeneralized = (time: EpochSeconds): boolean =>
  new Date(time * 1000).getUTCFullYear() >= GENERALIZED_TIME_YEAR

/** A point in time as a certificate writes it: UTCTime through 2049, GeneralizedTime from 2050 on. */
export function encodeTime(time: EpochSeconds): Bytes {
  // 2049-12-31T23:59:59.000Z → 20491231235959Z
  const digits = new Date(time * 1000).toISOString().slice(0, 19).replaceAll(/[-T:]/g, '')
  const general = isGeneralized(time)
  const text = `${general ? digits : digits.slice(2)}Z`
  return Uint8Array.of(general ? TAG.generalizedTime : TAG.utcTime, text.length, ...new TextEncoder().encode(text))
}

/** The time that an element is, in the one form that RFC 5280 §4.1.2.5 has for it, or null. */
export function timeOf(element: Element | undefined): EpochSeconds | null {
  if (element?.tag !== TAG.utcTime && element?.tag !== TAG.generalizedTime) return null
  const general = element.tag === TAG.generalizedTime
  const text = decodeWide(element.contents, 1) ?? ''
  if (text.length !== (general ? 15 : 13) || !text.endsWith('Z')) return null
  const digits = text.slice(0, -1)
  for (const character of digits) if (character < '0' || character > '9') return null
  const full = general ? digits : `${Number(digits.slice(0, 2)) < 50 ? '20' : '19'}${digits}`
  const [year, month, day, hour, minute, second] = [0, 4, 6, 8, 10, 12].map((at, i) =>
    Number(full.slice(at, at + (i === 0 ? 4 : 2))),
  ) as [number, number, number, number, number, number]
  const date = new Date(Date.UTC(year, month - 1, day, hour, minute, second))
  // A date that the calendar lacks comes back as another one; years under 100 never come back.
  if (date.toISOString().slice(0, 19).replaceAll(/[-T:]/g, '') !== full) return null
  const time = epochSeconds(date.getTime() / 1000)
  return isGeneralized(time) === general ? time : null
}
