// Builds the TBSCertificate of a leaf, which the CA's key signs (RFC 5280 §4.1.2). Pure.

import type { Bytes } from '../../protocol/bytes.ts'
import { TAG } from '../../protocol/der.ts'
import {
  characterString,
  element,
  objectIdentifier,
  octetString,
  sequence,
  set,
  unsignedInteger,
} from '../../protocol/der-writer.ts'
import type { LeafSubject } from '../../protocol/leaf.ts'
import { OID } from '../../protocol/oids.ts'
import type { EpochSeconds } from '../../protocol/time.ts'
import type { IssuingCertificate } from './authority.ts'
import { URI_NAME } from './extensions.ts'
import { formatOrganizationalUnit, type Grant, saysNoRevAvail } from './profile.ts'

/** The octets of a grant's serial, and the key identifier of its key. */
export interface DerivedOctets {
  readonly serial: Bytes
  readonly keyIdentifier: Bytes
}

/** In DER. The grant must keep to the profile. `algorithm`: DER of the AlgorithmIdentifier of the signature. */
export function buildToBeSigned(
  { certificate, keyIdentifier: issuerKeyIdentifier }: IssuingCertificate,
  algorithm: Bytes,
  grant: Grant,
  { serial, keyIdentifier }: DerivedOctets,
): Bytes {
  const extensions = sequence(
    BASIC_CONSTRAINTS,
    KEY_USAGE,
    EXTENDED_KEY_USAGE,
    extension(SUBJECT_KEY_IDENTIFIER, octetString(keyIdentifier)),
    extension(AUTHORITY_KEY_IDENTIFIER, sequence(element(CONTEXT_0, issuerKeyIdentifier))),
    extension(SUBJECT_ALT_NAME, sequence(characterString(URI_NAME, grant.spiffeId))),
    ...(saysNoRevAvail(grant) ? [NO_REV_AVAIL] : []),
  )
  return sequence(
    VERSION_3,
    unsignedInteger(serial),
    algorithm,
    certificate.subject,
    sequence(encodeTime(grant.notBefore), encodeTime(grant.notAfter)),
    encodeSubject(grant),
    grant.spki,
    element(CONSTRUCTED_CONTEXT_3, extensions),
  )
}

const CONTEXT_0 = 0x80
const CONSTRUCTED_CONTEXT_0 = 0xa0
const CONSTRUCTED_CONTEXT_3 = 0xa3

/** `critical`: TRUE for a critical extension, else nothing, since DER leaves out FALSE. */
const extension = (type: Bytes, value: Bytes, ...critical: Bytes[]): Bytes =>
  sequence(type, ...critical, octetString(value))

const VERSION_3 = element(CONSTRUCTED_CONTEXT_0, unsignedInteger(Uint8Array.of(2)))
const TRUE = element(TAG.boolean, Uint8Array.of(0xff))
/** CA:FALSE: both fields are at their defaults, so DER leaves them out. */
const BASIC_CONSTRAINTS = extension(objectIdentifier(OID.basicConstraints), sequence(), TRUE)
/** digitalSignature is the first bit; seven of the octet are unused. */
const KEY_USAGE = extension(objectIdentifier(OID.keyUsage), element(TAG.bitString, Uint8Array.of(7, 0x80)), TRUE)
const EXTENDED_KEY_USAGE = extension(
  objectIdentifier(OID.extendedKeyUsage),
  sequence(objectIdentifier(OID.clientAuth), objectIdentifier(OID.serverAuth)),
)
const NO_REV_AVAIL = extension(objectIdentifier(OID.noRevAvail), element(TAG.null))

const SUBJECT_KEY_IDENTIFIER = objectIdentifier(OID.subjectKeyIdentifier)
const AUTHORITY_KEY_IDENTIFIER = objectIdentifier(OID.authorityKeyIdentifier)
const SUBJECT_ALT_NAME = objectIdentifier(OID.subjectAltName)
const ORGANIZATION = objectIdentifier(OID.organization)
const ORGANIZATIONAL_UNIT = objectIdentifier(OID.organizationalUnit)
const COMMON_NAME = objectIdentifier(OID.commonName)

/** Each RDN has one attribute. Tenants, units and enrollment IDs hold only characters of a PrintableString. */
const encodeSubject = (subject: LeafSubject): Bytes =>
  sequence(
    rdn(ORGANIZATION, subject.tenant),
    rdn(ORGANIZATIONAL_UNIT, formatOrganizationalUnit(subject)),
    rdn(COMMON_NAME, subject.enrollmentId),
  )

const rdn = (type: Bytes, text: string): Bytes => set(sequence(type, characterString(TAG.printableString, text)))

/** UTCTime through 2049, GeneralizedTime from 2050 on (§4.1.2.5). */
function encodeTime(time: EpochSeconds): Bytes {
  // 2049-12-31T23:59:59.000Z → 20491231235959Z
  const iso = new Date(time * 1000).toISOString().slice(0, 19)
  const digits = iso.replaceAll('-', '').replaceAll(':', '').replace('T', '')
  return digits >= '2050'
    ? characterString(TAG.generalizedTime, `${digits}Z`)
    : characterString(TAG.utcTime, `${digits.slice(2)}Z`)
}
