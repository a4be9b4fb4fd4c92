// Issues the certificate of a grant: build, sign, inspect.

import type { Bytes } from '../../protocol/bytes.ts'
import { bitString, objectIdentifier, sequence, unsignedInteger } from '../../protocol/der-writer.ts'
import type { Authority } from './authority.ts'
import { inspectIssued } from './inspect.ts'
import { SIGNING } from './keys.ts'
import { type Grant, isGrant, serialBytes } from './profile.ts'
import { keyIdentifierOf, p256PointOf } from './public-key.ts'
import { buildToBeSigned } from './to-be-signed.ts'

export interface Issued {
  readonly der: Bytes
  /** r ‖ s. */
  readonly signature: Bytes
}

/** DER of the AlgorithmIdentifier of each curve's signatures, without parameters (RFC 5758 §3.2). */
const ALGORITHMS = {
  'P-256': sequence(objectIdentifier(SIGNING['P-256'].oid)),
  'P-384': sequence(objectIdentifier(SIGNING['P-384'].oid)),
} as const

/**
 * Signs the certificate of a grant that is already on record. Throws where the grant breaks the profile or the
 * certificate differs from the grant: both are bugs. `kept`: the signature of an earlier time; where it still fits, the
 * certificate is the same again.
 */
export async function issueCertificate(authority: Authority, grant: Grant, kept: Bytes | null = null): Promise<Issued> {
  const serial = serialBytes(grant.serial)
  const point = p256PointOf(grant.spki)
  if (!isGrant(grant) || serial === null || point === null) throw new Error('the grant breaks the profile')
  const { curve, key } = authority.signer
  const algorithm = ALGORITHMS[curve]
  const keyIdentifier = await keyIdentifierOf(point)
  const tbs = buildToBeSigned(authority.issuing, algorithm, grant, { serial, keyIdentifier })

  const certificateWith = (signature: Bytes) => ({
    der: sequence(tbs, algorithm, bitString(signatureToDer(signature))),
    signature,
  })
  if (kept !== null) {
    const again = certificateWith(kept)
    if ((await inspectIssued(authority, grant, again.der)) === null) return again
  }
  const issued = certificateWith(
    new Uint8Array(await crypto.subtle.sign({ name: 'ECDSA', hash: SIGNING[curve].hash }, key, tbs)),
  )
  const difference = await inspectIssued(authority, grant, issued.der)
  if (difference !== null) throw new Error(`the certificate differs from its grant: ${difference}`)
  return issued
}

/** SEQUENCE { r, s } of the r ‖ s that WebCrypto makes (RFC 3279 §2.2.3). */
export function signatureToDer(raw: Uint8Array): Bytes {
  const size = raw.length / 2
  return sequence(unsignedInteger(raw.subarray(0, size)), unsignedInteger(raw.subarray(size)))
}
