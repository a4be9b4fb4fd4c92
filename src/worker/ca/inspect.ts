// Inspects a certificate that the CA made: parses its DER independently and compares it with the grant, signature included.

import { type Bytes, equalBytes, hex, sha256Hex } from '../../protocol/bytes.ts'
import { OID } from '../../protocol/oids.ts'
import type { Authority } from './authority.ts'
import { type Certificate, readCertificate } from './certificate.ts'
import { KEY_USAGE } from './extensions.ts'
import { type Grant, saysNoRevAvail } from './profile.ts'
import { keyIdentifierOf } from './public-key.ts'
import { subjectOf } from './subject.ts'

/**
 * The first part in which a certificate differs from its grant, in words for an operator; null for none. `issuer` of
 * the grant is not compared: a retry after a rotation signs the content on record with the new key.
 */
export async function inspectIssued(authority: Authority, grant: Grant, der: Bytes): Promise<string | null> {
  const certificate = readCertificate(der)
  if (certificate === null) return 'it cannot be read'
  const { issuing } = authority
  const { extensions } = certificate
  const subject = subjectOf(certificate)
  if (subject === null) return 'the profile of a leaf'
  const keyIdentifier = await keyIdentifierOf(certificate.publicKey)
  const checks: readonly (readonly [string, boolean])[] = [
    ['the serial', hex(certificate.serial) === grant.serial],
    ['the issuer', equalBytes(certificate.issuer, issuing.certificate.subject)],
    ['the times', certificate.notBefore === grant.notBefore && certificate.notAfter === grant.notAfter],
    ['the times of the issuer', certificate.notAfter <= issuing.certificate.notAfter],
    ['the tenant', subject.tenant === grant.tenant],
    ['the organizational unit', subject.mode === grant.mode && subject.source === grant.source],
    ['the enrollment', subject.enrollmentId === grant.enrollmentId],
    ['the SPIFFE ID', subject.spiffeId === grant.spiffeId],
    ['the public key', equalBytes(certificate.spki, grant.spki)],
    ['the public key on record', (await sha256Hex(certificate.spki)) === grant.publicKeyHash],
    ['the key usage', extensions.keyUsage === KEY_USAGE.digitalSignature],
    ['the extended key usage', hasBothPurposes(certificate)],
    ['the subject key identifier', isKeyIdentifier(extensions.subjectKeyIdentifier, keyIdentifier)],
    ['the authority key identifier', isKeyIdentifier(extensions.authorityKeyIdentifier, issuing.keyIdentifier)],
    ['noRevAvail', extensions.noRevAvail === saysNoRevAvail(grant)],
  ]
  const differing = checks.find(([, holds]) => !holds)
  if (differing !== undefined) return differing[0]
  return (await issuing.verifier.verify(certificate)) ? null : 'the signature'
}

const hasBothPurposes = ({ extensions: { extendedKeyUsage } }: Certificate): boolean =>
  extendedKeyUsage?.length === 2 && extendedKeyUsage[0] === OID.clientAuth && extendedKeyUsage[1] === OID.serverAuth

const isKeyIdentifier = (found: Bytes | null, expected: Bytes): boolean => found !== null && equalBytes(found, expected)
