// Public keys as certificates and CSRs carry them, and the one P-256 form that a runner's key may have.

import { type Bytes, equalBytes } from '../../protocol/base64url.ts'
import type { Key } from './webcrypto.ts'

/** SEQUENCE { SEQUENCE { id-ecPublicKey, prime256v1 }, BIT STRING (66) { no unused bits, 04, … } } (RFC 5480 §2). */
const P256_PREFIX = Uint8Array.of(
  ...[0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08],
  ...[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00, 0x04],
)
/** Octets of a P-256 SubjectPublicKeyInfo with an uncompressed point. */
const P256_SPKI_BYTES = 91
const POINT_START = P256_PREFIX.length - 1

/**
 * The uncompressed point (04 ‖ x ‖ y) of a P-256 key, or null for every other key and every other way to write this
 * one: compressed, hybrid, explicit parameters. Decided by octets, since runtimes differ in what they import.
 */
export function p256PointOf(spki: Bytes): Bytes | null {
  if (spki.length !== P256_SPKI_BYTES || !equalBytes(spki.subarray(0, P256_PREFIX.length), P256_PREFIX)) return null
  return spki.subarray(POINT_START)
}

/** The SubjectPublicKeyInfo of an uncompressed point. */
export function p256SpkiOf(point: Uint8Array): Bytes {
  const spki = new Uint8Array(P256_SPKI_BYTES)
  spki.set(P256_PREFIX)
  spki.set(point, POINT_START)
  return spki
}

/** The key of a point, to verify with; null where the point is not on the curve (or is at infinity). */
export async function importP256(point: Bytes): Promise<Key | null> {
  try {
    return await crypto.subtle.importKey('raw', point, { name: 'ECDSA', namedCurve: 'P-256' }, false, ['verify'])
  } catch {
    return null
  }
}

/** ECDSA with SHA-256 by a runner's key; `signature` is r ‖ s. Never throws: what is not 64 octets is not valid. */
export async function verifyP256(key: Key, signature: Bytes, signed: Bytes): Promise<boolean> {
  if (signature.length !== 64) return false
  return crypto.subtle.verify({ name: 'ECDSA', hash: 'SHA-256' }, key, signature, signed)
}
