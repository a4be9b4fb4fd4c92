// The CA's private key: PKCS#8 PEM, EC P-256 or P-384 (RFC 5958, RFC 5915).

import type { Bytes } from '../../protocol/base64url.ts'
import { oidOf, parseDer, TAG } from '../../protocol/der.ts'
import { parsePemFile } from '../../protocol/pem.ts'
import { OID } from './oids.ts'
import type { Key } from './webcrypto.ts'

export type Curve = 'P-256' | 'P-384'

/** How each curve signs: the hash of its own strength (RFC 5758 §3.2). */
export const SIGNING = {
  'P-256': { hash: 'SHA-256', oid: OID.ecdsaSha256, octets: 32 },
  'P-384': { hash: 'SHA-384', oid: OID.ecdsaSha384, octets: 48 },
} as const

export interface PrivateKey {
  readonly curve: Curve
  readonly key: Key
}

export interface KeyFault {
  readonly fault: string
}

/** Imports a CA key to sign with; the fault says what it is instead, and quotes nothing of it. */
export async function importPrivateKey(pem: string): Promise<PrivateKey | KeyFault> {
  const blocks = parsePemFile(pem, 1)
  if (!blocks.ok) return { fault: `is not a PEM private key: ${blocks.error}` }
  const [block] = blocks.value
  if (block === undefined || block.label !== 'PRIVATE KEY') return { fault: labelFault(block?.label) }
  const curve = curveOf(block.bytes)
  if (curve === null) return { fault: 'is not an EC key on P-256 or P-384 in PKCS#8' }
  try {
    const algorithm = { name: 'ECDSA', namedCurve: curve }
    return { curve, key: await crypto.subtle.importKey('pkcs8', block.bytes, algorithm, false, ['sign']) }
  } catch {
    return { fault: 'is damaged: it cannot be imported' }
  }
}

function labelFault(label: string | undefined): string {
  if (label === 'EC PRIVATE KEY') return 'is in SEC 1 form: convert it with `openssl pkcs8 -topk8 -nocrypt`'
  if (label === 'ENCRYPTED PRIVATE KEY') return 'is encrypted: decrypt it with `openssl pkcs8 -topk8 -nocrypt`'
  return 'is not a PEM block PRIVATE KEY'
}

/** The named curve of a PKCS#8 EC key. */
function curveOf(der: Bytes): Curve | null {
  const info = parseDer(der)
  const [version, algorithm] = info?.children ?? []
  if (info?.tag !== TAG.sequence || version?.tag !== TAG.integer || algorithm?.tag !== TAG.sequence) return null
  if (oidOf(algorithm.children[0]) !== OID.ecPublicKey) return null
  const curve = oidOf(algorithm.children[1])
  return curve === OID.p256 ? 'P-256' : curve === OID.p384 ? 'P-384' : null
}
