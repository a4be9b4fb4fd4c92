// Parses EC public keys (SubjectPublicKeyInfo, RFC 5480), and verifies with those of runners, which are P-256.

import { type Bytes, sha256 } from '../../protocol/bytes.ts'
import { bitsOf, isSequence, oidOf, parseDer } from '../../protocol/der.ts'
import { OID } from '../../protocol/oids.ts'
import type { Key } from './keys.ts'

export interface EcPublicKey {
  /** As WebCrypto and JWK name it. */
  readonly curve: string
  /** Octets of a coordinate, and of r and s in signatures. */
  readonly octets: number
  /** Uncompressed: 04 ‖ x ‖ y. */
  readonly point: Bytes
}

interface Curve {
  readonly curve: string
  readonly octets: number
}

const CURVES: Readonly<Record<string, Curve>> = {
  [OID.p256]: { curve: 'P-256', octets: 32 },
  [OID.p384]: { curve: 'P-384', octets: 48 },
  [OID.p521]: { curve: 'P-521', octets: 66 },
}

/**
 * The EC key of an `spki`, or null for any other key or encoding: compressed, hybrid, explicit parameters. Runtimes
 * differ in which of these they import. Whether the point is on its curve is not checked.
 */
export function ecPublicKeyOf(spki: Bytes): EcPublicKey | null {
  const info = parseDer(spki)
  const [algorithm, bits] = isSequence(info, 2) ? info.children : []
  const [type, parameters, ...others] = isSequence(algorithm) ? algorithm.children : []
  if (others.length > 0) return null
  const curve = CURVES[oidOf(parameters) ?? '']
  const point = bitsOf(bits)
  if (oidOf(type) !== OID.ecPublicKey || curve === undefined || point === null) return null
  return point[0] === 0x04 && point.length === 1 + curve.octets * 2 ? { ...curve, point } : null
}

/** The uncompressed point, 65 octets, of a P-256 key; null for any other. */
export function p256PointOf(spki: Bytes): Bytes | null {
  const key = ecPublicKeyOf(spki)
  return key?.curve === 'P-256' ? key.point : null
}

/** The key of a point, for verifying; null where the point is not on the curve, or at infinity. */
export async function importP256(point: Bytes): Promise<Key | null> {
  try {
    return await crypto.subtle.importKey('raw', point, { name: 'ECDSA', namedCurve: 'P-256' }, false, ['verify'])
  } catch {
    return null
  }
}

/** ECDSA with SHA-256 by a runner's key; `signature` is r ‖ s. Never throws: one that is not 64 octets is not valid. */
export async function verifyP256(key: Key, signature: Bytes, message: Bytes): Promise<boolean> {
  if (signature.length !== 64) return false
  return crypto.subtle.verify({ name: 'ECDSA', hash: 'SHA-256' }, key, signature, message)
}

/**
 * A key identifier by RFC 7093 §2 method 1, 20 octets: the leftmost 160 bits of the SHA-256 of the contents of the
 * key's BIT STRING.
 */
export async function keyIdentifierOf(publicKey: Bytes): Promise<Bytes> {
  return (await sha256(publicKey)).subarray(0, 20)
}
