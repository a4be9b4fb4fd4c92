// What RFC 5280 demands of the certificates of CA_CERT beyond signatures and path length, as far as verifiers demand it:
// `openssl verify -x509_strict`, and Python since 3.13, refuse the leaves of a CA that does not conform. Pure.

import { equalBytes } from '../../protocol/bytes.ts'
import { OID } from '../../protocol/oids.ts'
import type { Certificate } from './certificate.ts'

/** The first fault in a chain from the issuing certificate up to the root, to follow its position; null for none. */
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

function faultOf({ extensions, subjectAttributes }: Certificate): string | null {
  const { keyUsage, subjectKeyIdentifier, critical } = extensions
  if (!critical.has(OID.basicConstraints)) return 'has basicConstraints that are not critical (RFC 5280 §4.2.1.9)'
  if (keyUsage === null) return 'has no keyUsage with keyCertSign (RFC 5280 §4.2.1.3)'
  if (subjectKeyIdentifier === null) return 'has no subject key identifier (RFC 5280 §4.2.1.2)'
  if (critical.has(OID.subjectKeyIdentifier)) return 'has a critical subject key identifier (RFC 5280 §4.2.1.2)'
  if (critical.has(OID.authorityKeyIdentifier)) return 'has a critical authority key identifier (RFC 5280 §4.2.1.1)'
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
