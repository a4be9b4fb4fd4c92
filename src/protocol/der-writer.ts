// Writes DER (X.690), the counterpart of der.ts. Pure. Callers see to it that each value is one of its type.

import { type Bytes, utf8 } from './bytes.ts'
import { TAG } from './der.ts'

/** One element with the concatenated `contents`. Throws from 64 KiB on, which the reader refuses. */
export function element(tag: number, ...contents: readonly Uint8Array[]): Bytes {
  const length = contents.reduce((sum, part) => sum + part.length, 0)
  if (length > 0xffff) throw new RangeError('a DER element of 64 KiB or more')
  const header =
    length < 0x80 ? [tag, length] : length < 0x100 ? [tag, 0x81, length] : [tag, 0x82, length >> 8, length & 0xff]
  const bytes = new Uint8Array(header.length + length)
  bytes.set(header)
  let at = header.length
  for (const part of contents) {
    bytes.set(part, at)
    at += part.length
  }
  return bytes
}

export const sequence = (...children: readonly Uint8Array[]): Bytes => element(TAG.sequence, ...children)
export const set = (...children: readonly Uint8Array[]): Bytes => element(TAG.set, ...children)
export const octetString = (octets: Uint8Array): Bytes => element(TAG.octetString, octets)

/** A BIT STRING of whole octets. */
export const bitString = (octets: Uint8Array): Bytes => element(TAG.bitString, Uint8Array.of(0), octets)

/** A character string of the type `tag`, whose octets are those of UTF-8: UTF8String, or ASCII in the narrower types. */
export const characterString = (tag: number, text: string): Bytes => element(tag, utf8(text))

/** The INTEGER whose unsigned, big-endian octets are `magnitude`: leading zeros go, one comes back before a high bit. */
export function unsignedInteger(magnitude: Uint8Array): Bytes {
  let zeros = 0
  while (zeros < magnitude.length && magnitude[zeros] === 0) zeros++
  const octets = magnitude.subarray(zeros)
  const sign = octets[0] === undefined || octets[0] >= 0x80 ? [0] : []
  return element(TAG.integer, Uint8Array.from(sign), octets)
}

/** The OBJECT IDENTIFIER of arcs with dots, each below 2^32. */
export function objectIdentifier(text: string): Bytes {
  const [root = 0, second = 0, ...arcs] = text.split('.').map(Number)
  // The first two arcs share one number (X.690 §8.19.4).
  return element(TAG.oid, Uint8Array.from([root * 40 + second, ...arcs].flatMap(base128)))
}

/** Seven bits an octet, most significant first; the high bit says that another follows. */
function base128(arc: number): number[] {
  const octets = [arc % 128]
  for (let rest = Math.floor(arc / 128); rest > 0; rest = Math.floor(rest / 128)) octets.unshift((rest % 128) | 0x80)
  return octets
}
