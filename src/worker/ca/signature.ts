// Verifies certificate signatures with the keys of CAs, by WebCrypto alone.

import type { Bytes } from '../../protocol/bytes.ts'
import { isSequence, oidOf, parseDer, TAG } from '../../protocol/der.ts'
import { OID } from '../../protocol/oids.ts'
import type { Certificate, SignatureAlgorithm } from './certificate.ts'
import { type EcPublicKey, ecPublicKeyOf } from './public-key.ts'

/** A key that verifies certificates. */
export interface Verifier {
  verify(certificate: Certificate): Promise<boolean>
}

const ECDSA_HASHES: Readonly<Record<string, string>> = {
  [OID.ecdsaSha256]: 'SHA-256',
  [OID.ecdsaSha384]: 'SHA-384',
  [OID.ecdsaSha512]: 'SHA-512',
}
const RSA_HASHES: Readonly<Record<string, string>> = {
  [OID.rsaSha256]: 'SHA-256',
  [OID.rsaSha384]: 'SHA-384',
  [OID.rsaSha512]: 'SHA-512',
}

/** The verifier of a CA's SubjectPublicKeyInfo, or null where its key is of no accepted kind. */
export async function importVerifier(spki: Bytes): Promise<Verifier | null> {
  const key = ecPublicKeyOf(spki)
  if (key === null) return oidOf(parseDer(spki)?.children[0]?.children[0]) === OID.rsa ? rsaVerifier(spki) : null
  try {
    return await ecdsaVerifier(spki, key)
  } catch {
    // The point is not on its curve.
    return null
  }
}

async function ecdsaVerifier(spki: Bytes, { curve, octets }: EcPublicKey): Promise<Verifier> {
  const key = await crypto.subtle.importKey('spki', spki, { name: 'ECDSA', namedCurve: curve }, false, ['verify'])
  return {
    verify: async ({ signatureAlgorithm: { oid, parameters }, signature, tbs }) => {
      const hash = ECDSA_HASHES[oid]
      const raw = signatureToRaw(signature, octets)
      if (hash === undefined || parameters !== null || raw === null) return false
      return crypto.subtle.verify({ name: 'ECDSA', hash }, key, raw, tbs)
    },
  }
}

/** An operator's older root may be RSA. A WebCrypto key is for one hash, so it is imported at each use. */
function rsaVerifier(spki: Bytes): Verifier {
  return {
    verify: async ({ signatureAlgorithm, signature, tbs }) => {
      const hash = rsaHashOf(signatureAlgorithm)
      if (hash === null) return false
      const algorithm = { name: 'RSASSA-PKCS1-v1_5', hash }
      const key = await crypto.subtle.importKey('spki', spki, algorithm, false, ['verify'])
      return crypto.subtle.verify(algorithm.name, key, signature, tbs)
    },
  }
}

/** RFC 4055 §5: PKCS#1 v1.5 signatures carry a NULL. */
const rsaHashOf = ({ oid, parameters }: SignatureAlgorithm): string | null =>
  parameters !== null && parseDer(parameters)?.tag === TAG.null ? (RSA_HASHES[oid] ?? null) : null

/**
 * The r ‖ s that WebCrypto takes, each left-padded to `size` octets, or null where `der` is anything but
 * SEQUENCE { INTEGER, INTEGER } in DER with both positive and no longer than the curve's order (RFC 3279 §2.2.3).
 */
export function signatureToRaw(der: Bytes, size: number): Bytes | null {
  const sequence = parseDer(der)
  if (!isSequence(sequence, 2)) return null
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
