// ECDSA signatures: the DER that certificates and CSRs carry, and the r ‖ s that WebCrypto speaks. Pure.

import type { Bytes } from '../../protocol/base64url.ts'
import { parseDer, TAG } from '../../protocol/der.ts'

/**
 * r ‖ s, each left-padded to `size` octets, or null where `der` is anything but SEQUENCE { INTEGER, INTEGER } in DER
 * with both positive and no longer than the curve's order (RFC 3279 §2.2.3).
 */
export function signatureToRaw(der: Bytes, size: number): Bytes | null {
  const sequence = parseDer(der)
  if (sequence?.tag !== TAG.sequence || sequence.children.length !== 2) return null
  const raw = new Uint8Array(size * 2)
  for (const [i, { tag, contents }] of sequence.children.entries()) {
    const first = contents[0] as number
    if (tag !== TAG.integer || first >= 0x80) return null
    const magnitude = first === 0 ? contents.subarray(1) : contents
    if (magnitude.length === 0 || magnitude.length > size) return null
    raw.set(magnitude, (i + 1) * size - magnitude.length)
  }
  return raw
}

/** The DER of r ‖ s: shortest form, a zero octet before a high bit. */
export function signatureToDer(raw: Uint8Array): Bytes {
  const size = raw.length / 2
  const integers = [raw.subarray(0, size), raw.subarray(size)].map(positiveInteger)
  const length = integers.reduce((sum, { length }) => sum + length, 0)
  // At most 2 × (2 + 49) octets for P-384: the short form of the length always serves.
  const der = new Uint8Array(2 + length)
  der.set([TAG.sequence, length])
  let at = 2
  for (const integer of integers) {
    der.set(integer, at)
    at += integer.length
  }
  return der
}

function positiveInteger(octets: Uint8Array): Bytes {
  let zeros = 0
  while (zeros < octets.length - 1 && octets[zeros] === 0) zeros++
  const magnitude = octets.subarray(zeros)
  const sign = (magnitude[0] as number) >= 0x80 ? 1 : 0
  const integer = new Uint8Array(2 + sign + magnitude.length)
  integer[0] = TAG.integer
  integer[1] = sign + magnitude.length
  integer.set(magnitude, 2 + sign)
  return integer
}
