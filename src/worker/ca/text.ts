// Parses the ASN.1 character strings and times of certificates and CSRs. Pure.

import { type Bytes, decodeUtf8 } from '../../protocol/bytes.ts'
import { type Element, TAG } from '../../protocol/der.ts'
import { type EpochSeconds, epochSeconds } from '../../protocol/time.ts'

/** The text of a character string; null for another element, or octets that its type cannot hold. */
export function textOf(element: Element | undefined): string | null {
  switch (element?.tag) {
    case TAG.utf8String:
      return decodeUtf8(element.contents)
    case TAG.printableString:
    case TAG.ia5String:
    case TAG.teletexString:
      // Their alphabets are not checked: such a text is only compared with ASCII texts, which all three types share.
      return decodeWide(element.contents, 1)
    case TAG.bmpString:
      return decodeWide(element.contents, 2)
    case TAG.universalString:
      return decodeWide(element.contents, 4)
    default:
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

/** The time of an element in the form that RFC 5280 §4.1.2.5 demands for it, or null. */
export function timeOf(element: Element | undefined): EpochSeconds | null {
  if (element?.tag !== TAG.utcTime && element?.tag !== TAG.generalizedTime) return null
  const { tag, contents } = element
  const general = tag === TAG.generalizedTime
  const digits = contents.length - 1
  if (digits !== (general ? 14 : 12) || contents[digits] !== 0x5a) return null
  for (let i = 0; i < digits; i++) if ((contents[i] as number) < 0x30 || (contents[i] as number) > 0x39) return null

  const pair = (at: number) => ((contents[at] as number) - 0x30) * 10 + (contents[at + 1] as number) - 0x30
  const short = pair(0)
  const year = general ? short * 100 + pair(2) : short < 50 ? 2000 + short : 1900 + short
  const rest = general ? 4 : 2
  const [month, day] = [pair(rest) - 1, pair(rest + 2)]
  const [hour, minute, second] = [pair(rest + 4), pair(rest + 6), pair(rest + 8)]
  if (hour > 23 || minute > 59 || second > 59) return null
  const date = new Date(Date.UTC(year, month, day, hour, minute, second))
  // Date.UTC turns a day that does not exist, or a year under 100, into another one.
  if (date.getUTCFullYear() !== year || date.getUTCMonth() !== month || date.getUTCDate() !== day) return null
  return year >= GENERALIZED_TIME_YEAR === general ? epochSeconds(date.getTime() / 1000) : null
}
