// Checks the certificates of CA_CERT by what strict verifiers demand of a CA beyond signatures and path length. Pure.
// `openssl verify -x509_strict` and Python since 3.13 refuse the leaves of a CA that breaks these rules of RFC 5280.
// Without that option, too, OpenSSL refuses for TLS a CA whose usages lack clientAuth or serverAuth, or with a weak key.

import { type Bytes, equalBytes } from '../../protocol/bytes.ts'
import { parseDer } from '../../protocol/der.ts'
import { OID } from '../../protocol/oids.ts'
import type { Certificate } from './certificate.ts'
import { ecPublicKeyOf } from './public-key.ts'

/** The first fault in a chain from the issuing certificate up to the root, and its position; null for none. */
export function conformanceFault(
  chain: readonly Certificate[],
): { readonly at: number; readonly fault: string } | null {
  const own = chain.map(faultOf)
  const ofIssuers = chain.map((certificate, at) => issuerFault(certificate, chain[at + 1] ?? null))
  for (const faults of [own, ofIssuers]) {
    const at = faults.findIndex((fault) => fault !== null)
    const fault = faults[at] ?? null
    if (fault !== null) return { at, fault }
  }
  return null
}

const LEAF_USAGES = [OID.clientAuth, OID.serverAuth]
/** What OpenSSL demands at its default security level, 2. */
const RSA_BITS_LEAST = 2048

/** The length of the modulus of an RSAPublicKey (RFC 8017 §A.1.1). */
function rsaBitsOf(publicKey: Bytes): number {
  const modulus = parseDer(publicKey)?.children[0]?.contents ?? []
  const first = modulus.findIndex((octet) => octet !== 0)
  return first === -1 ? 0 : (modulus.length - first) * 8 - (Math.clz32(modulus[first] as number) - 24)
}

function faultOf({ extensions, subjectAttributes, spki, publicKey }: Certificate): string | null {
  const { keyUsage, extendedKeyUsage, subjectKeyIdentifier, critical } = extensions
  if (!critical.has(OID.basicConstraints)) return 'has basicConstraints that are not critical (RFC 5280 §4.2.1.9)'
  if (keyUsage === null) return 'has no keyUsage with keyCertSign (RFC 5280 §4.2.1.3)'
  if (subjectKeyIdentifier === null) return 'has no subject key identifier (RFC 5280 §4.2.1.2)'
  if (critical.has(OID.subjectKeyIdentifier)) return 'has a critical subject key identifier (RFC 5280 §4.2.1.2)'
  if (critical.has(OID.authorityKeyIdentifier)) return 'has a critical authority key identifier (RFC 5280 §4.2.1.1)'
  // For TLS, OpenSSL does not let anyExtendedKeyUsage stand for clientAuth or serverAuth.
  if (extendedKeyUsage !== null && !LEAF_USAGES.every((usage) => extendedKeyUsage.includes(usage)))
    return 'has an extendedKeyUsage that does not name both clientAuth and serverAuth'
  if (ecPublicKeyOf(spki) === null && rsaBitsOf(publicKey) < RSA_BITS_LEAST)
    return `has an RSA key of less than ${RSA_BITS_LEAST} bits`
  return subjectAttributes.length === 0 ? 'has an empty subject (RFC 5280 §4.1.2.6)' : null
}

/** `issuer` null: the certificate is a root, which may leave its authority key identifier out. */
function issuerFault({ extensions, ...self }: Certificate, issuer: Certificate | null): string | null {
  const { authorityKeyIdentifier, authorityIssuer, authoritySerial } = extensions
  if (issuer !== null && authorityKeyIdentifier === null) return 'has no authority key identifier (RFC 5280 §4.2.1.1)'
  const { serial, issuer: issuerName } = issuer ?? self
  const keyIdentifier = (issuer?.extensions ?? extensions).subjectKeyIdentifier
  const names = [
    [authorityKeyIdentifier, keyIdentifier],
    [authorityIssuer, issuerName],
    [authoritySerial, serial],
  ] as const
  const differs = names.some(([named, own]) => named !== null && (own === null || !equalBytes(named, own)))
  return differs ? 'has the authority key identifier of another certificate (RFC 5280 §4.2.1.1)' : null
}
