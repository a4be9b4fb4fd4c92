// Issuing: a grant becomes a certificate, and a second reader looks at it before it leaves.

import { type Bytes, utf8 } from '../../protocol/base64url.ts'
import { TAG } from '../../protocol/der.ts'
import { encodePem } from '../../protocol/pem.ts'
import type { Authority } from './authority.ts'
import { signatureToDer } from './ecdsa.ts'
import { inspectIssued } from './inspect.ts'
import { keyIdentifierOf } from './key-identifier.ts'
import { type Curve, SIGNING } from './private-key.ts'
import { type Grant, isGrant, serialBytes } from './profile.ts'
import { p256PointOf } from './public-key.ts'
import { encodeValidity, type Fillings, type Slot, templateFor } from './template.ts'

export interface Issued {
  readonly der: Bytes
  readonly pem: string
}

/** AlgorithmIdentifier of each curve's signatures, without parameters (RFC 5758 §3.2). */
const ALGORITHM: Readonly<Record<Curve, readonly number[]>> = {
  'P-256': [0x30, 0x0a, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02],
  'P-384': [0x30, 0x0a, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x03],
}

/**
 * Signs the certificate of a grant that is on record already. Three calls of WebCrypto: the digest for the key
 * identifier, the signature, and its check. Throws where the grant or what came of it breaks the profile: a bug.
 */
export async function issueCertificate(authority: Authority, grant: Grant): Promise<Issued> {
  const serial = serialBytes(grant.serial)
  const point = p256PointOf(grant.spki)
  if (!isGrant(grant) || serial === null || point === null) throw new Error('the grant breaks the profile')
  const template = await templateFor(authority, grant)
  const keyIdentifier = await keyIdentifierOf(point)
  const fillings: Fillings = {
    serial,
    validity: encodeValidity(grant.notBefore, grant.notAfter),
    enrollmentId: utf8(grant.enrollmentId),
    point,
    keyIdentifier,
  }
  const tbs = template.tbs.slice()
  for (const slot of Object.keys(template.slots) as Slot[]) tbs.set(fillings[slot], template.slots[slot])

  const { curve, key } = authority.signer
  const raw = await crypto.subtle.sign({ name: 'ECDSA', hash: SIGNING[curve].hash }, key, tbs)
  const der = assemble(tbs, ALGORITHM[curve], signatureToDer(new Uint8Array(raw)))
  const fault = await inspectIssued(authority, grant, keyIdentifier, der)
  if (fault !== null) throw new Error(`the certificate differs from its grant: ${fault}`)
  return { der, pem: encodePem('CERTIFICATE', der) }
}

/** SEQUENCE { tbs, algorithm, BIT STRING { signature } }; more than 255 and less than 64 KiB. */
function assemble(tbs: Bytes, algorithm: readonly number[], signature: Bytes): Bytes {
  const length = tbs.length + algorithm.length + 3 + signature.length
  const der = new Uint8Array(4 + length)
  der.set([TAG.sequence, 0x82, length >> 8, length & 0xff])
  der.set(tbs, 4)
  der.set(algorithm, 4 + tbs.length)
  der.set([TAG.bitString, signature.length + 1, 0x00], 4 + tbs.length + algorithm.length)
  der.set(signature, der.length - signature.length)
  return der
}
