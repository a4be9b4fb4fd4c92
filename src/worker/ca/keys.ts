// Imports the CA's private key (PKCS#8 PEM, EC P-256 or P-384), and derives HMAC keys from its secret.

import { type Bytes, utf8 } from '../../protocol/bytes.ts'
import { isSequence, oidOf, parseDer, TAG } from '../../protocol/der.ts'
import { OID } from '../../protocol/oids.ts'
import { parsePemFile } from '../../protocol/pem.ts'
import { err, ok, type Result } from '../../protocol/result.ts'

/** A WebCrypto key; the type declarations of Workers and Node name it differently. */
export type Key = Awaited<ReturnType<typeof crypto.subtle.importKey>>

export interface KeyPair {
  readonly privateKey: Key
  readonly publicKey: Key
}

export type Curve = 'P-256' | 'P-384'

/** Hash and algorithm of each curve's signatures (RFC 5758 §3.2). */
export const SIGNING = {
  'P-256': { hash: 'SHA-256', oid: OID.ecdsaSha256 },
  'P-384': { hash: 'SHA-384', oid: OID.ecdsaSha384 },
} as const

export interface PrivateKey {
  readonly curve: Curve
  readonly key: Key
}

/** Imports a CA key for signing. The error follows the name of the secret and quotes nothing of it. */
export async function importPrivateKey(pem: string): Promise<Result<PrivateKey, string>> {
  const blocks = parsePemFile(pem, 1)
  if (!blocks.ok) return err(`is not a PEM private key: ${blocks.error}`)
  const [block] = blocks.value
  if (block === undefined || block.label !== 'PRIVATE KEY') return err(otherForm(block?.label))
  const curve = curveOf(block.bytes)
  if (curve === null) return err('is not an EC key on P-256 or P-384 in PKCS#8')
  try {
    const algorithm = { name: 'ECDSA', namedCurve: curve }
    return ok({ curve, key: await crypto.subtle.importKey('pkcs8', block.bytes, algorithm, false, ['sign']) })
  } catch {
    return err('is damaged: it cannot be imported')
  }
}

function otherForm(label: string | undefined): string {
  if (label === 'EC PRIVATE KEY') return 'is in SEC 1 form: convert it with `openssl pkcs8 -topk8 -nocrypt`'
  if (label === 'ENCRYPTED PRIVATE KEY') return 'is encrypted: decrypt it with `openssl pkcs8 -topk8 -nocrypt`'
  return 'is not a PEM block PRIVATE KEY'
}

/** The named curve of a PKCS#8 EC key. */
function curveOf(der: Bytes): Curve | null {
  const info = parseDer(der)
  const [version, algorithm] = info?.children ?? []
  if (!isSequence(info) || version?.tag !== TAG.integer || !isSequence(algorithm)) return null
  if (oidOf(algorithm.children[0]) !== OID.ecPublicKey) return null
  const curve = oidOf(algorithm.children[1])
  return curve === OID.p256 ? 'P-256' : curve === OID.p384 ? 'P-384' : null
}

/** An HMAC-SHA-256 key for one purpose, derived with HKDF (RFC 5869) from CA_KEY, the secret that every isolate has. */
export async function deriveHmacKey(caKey: string, purpose: string): Promise<Key> {
  const secret = await crypto.subtle.importKey('raw', utf8(caKey), 'HKDF', false, ['deriveKey'])
  const hkdf = { name: 'HKDF', hash: 'SHA-256', salt: new Uint8Array(32), info: utf8(purpose) }
  const hmac = { name: 'HMAC', hash: 'SHA-256', length: 256 }
  return crypto.subtle.deriveKey(hkdf, secret, hmac, false, ['sign', 'verify'])
}
