// Signatures of certificates by certificates' keys, checked by WebCrypto alone.

import type { Bytes } from '../../protocol/base64url.ts'
import { bitsOf, oidOf, parseDer } from '../../protocol/der.ts'
import type { Certificate, SignatureAlgorithm } from './certificate.ts'
import { signatureToRaw } from './ecdsa.ts'
import { OID } from './oids.ts'

/** A key that verifies certificates. */
export interface Verifier {
  verify(certificate: Certificate): Promise<boolean>
}

interface Curve {
  readonly name: string
  readonly octets: number
}

const CURVES: Readonly<Record<string, Curve>> = {
  [OID.p256]: { name: 'P-256', octets: 32 },
  [OID.p384]: { name: 'P-384', octets: 48 },
  [OID.p521]: { name: 'P-521', octets: 66 },
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
/** RFC 4055 §5: PKCS#1 v1.5 signatures carry a NULL. */
const NULL_PARAMETERS = [0x05, 0x00]

/** The verifier of a CA's SubjectPublicKeyInfo, or null where its key is of no accepted kind. */
export async function importVerifier(spki: Bytes): Promise<Verifier | null> {
  const [algorithm, publicKey] = parseDer(spki)?.children ?? []
  const type = oidOf(algorithm?.children[0])
  const curve = CURVES[oidOf(algorithm?.children[1]) ?? '']
  try {
    if (type === OID.ecPublicKey && curve !== undefined) {
      // Runtimes differ in the other forms of a point.
      const point = bitsOf(publicKey)
      return point?.[0] === 0x04 && point.length === 1 + curve.octets * 2 ? await ecdsaVerifier(spki, curve) : null
    }
    if (type === OID.rsa) return rsaVerifier(spki)
  } catch {
    // A key that WebCrypto won't have: a point off its curve, an RSA key without a modulus.
  }
  return null
}

async function ecdsaVerifier(spki: Bytes, { name, octets }: Curve): Promise<Verifier> {
  const key = await crypto.subtle.importKey('spki', spki, { name: 'ECDSA', namedCurve: name }, false, ['verify'])
  return {
    verify: async ({ signatureAlgorithm: { oid, parameters }, signature, tbs }) => {
      const hash = ECDSA_HASHES[oid]
      const raw = signatureToRaw(signature, octets)
      if (hash === undefined || parameters !== null || raw === null) return false
      return crypto.subtle.verify({ name: 'ECDSA', hash }, key, raw, tbs)
    },
  }
}

/** A root of an operator's older CA may be RSA; a key of WebCrypto is for one hash, so it is imported at each use. */
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

function rsaHashOf({ oid, parameters }: SignatureAlgorithm): string | null {
  const isNull = parameters?.length === 2 && NULL_PARAMETERS.every((octet, i) => octet === parameters[i])
  return isNull ? (RSA_HASHES[oid] ?? null) : null
}
