// The inspection of what the CA made: read anew from its DER and held against the grant, the signature included.

import { type Bytes, equalBytes, hex } from '../../protocol/base64url.ts'
import type { Authority } from './authority.ts'
import { type Certificate, readCertificate } from './certificate.ts'
import { KEY_USAGE } from './extensions.ts'
import { OID } from './oids.ts'
import { type Grant, saysNoRevAvail } from './profile.ts'
import { subjectOf } from './subject.ts'

/** The first thing in which a certificate differs from its grant; null for none. */
export async function inspectIssued(
  authority: Authority,
  grant: Grant,
  keyIdentifier: Bytes,
  der: Bytes,
): Promise<string | null> {
  const certificate = readCertificate(der)
  if (certificate === null) return 'it cannot be read'
  const { issuing } = authority
  const { extensions } = certificate
  const subject = subjectOf(certificate)
  if (subject === null) return 'the profile of a leaf'
  const checks: readonly (readonly [string, boolean])[] = [
    ['the serial', hex(certificate.serial) === grant.serial],
    ['the issuer', equalBytes(certificate.issuer, issuing.certificate.subject)],
    ['the times', certificate.notBefore === grant.notBefore && certificate.notAfter === grant.notAfter],
    ['the times of the issuer', certificate.notAfter <= issuing.certificate.notAfter],
    ['the tenant', subject.tenant === grant.tenant],
    ['the organizational unit', subject.organizationalUnit === grant.organizationalUnit],
    ['the enrollment', subject.enrollmentId === grant.enrollmentId],
    ['the SPIFFE ID', subject.spiffeId === grant.spiffeId],
    ['the public key', equalBytes(certificate.spki, grant.spki)],
    ['the key usage', extensions.keyUsage === KEY_USAGE.digitalSignature],
    ['the extended key usage', hasBothPurposes(certificate)],
    ['the subject key identifier', isKeyIdentifier(extensions.subjectKeyIdentifier, hex(keyIdentifier))],
    ['the authority key identifier', isKeyIdentifier(extensions.authorityKeyIdentifier, authority.issuerKeyId)],
    ['noRevAvail', extensions.noRevAvail === saysNoRevAvail(grant)],
  ]
  const differing = checks.find(([, holds]) => !holds)
  if (differing !== undefined) return differing[0]
  return (await issuing.verifier.verify(certificate)) ? null : 'the signature'
}

const hasBothPurposes = ({ extensions: { extendedKeyUsage } }: Certificate): boolean =>
  extendedKeyUsage?.length === 2 && extendedKeyUsage[0] === OID.clientAuth && extendedKeyUsage[1] === OID.serverAuth

const isKeyIdentifier = (found: Bytes | null, expected: string): boolean => found !== null && hex(found) === expected
