// Reads the subject and the SPIFFE ID of a leaf, which must agree, and checks its usages (X509-SVID). Pure.

import type { LeafSubject } from '../../protocol/leaf.ts'
import { OID } from '../../protocol/oids.ts'
import { parseSpiffeId } from '../../protocol/spiffe-id.ts'
import { isUuidv7 } from '../../protocol/uuid.ts'
import type { Certificate } from './certificate.ts'
import { KEY_USAGE, URI_NAME } from './extensions.ts'
import { parseOrganizationalUnit } from './profile.ts'

export interface Subject extends LeafSubject {
  readonly spiffeId: string
  /** The trust domain of the SPIFFE ID. */
  readonly trustDomain: string
}

/** Null where the certificate breaks the profile of a leaf or a rule of X509-SVID. */
export function subjectOf(certificate: Certificate): Subject | null {
  const { subjectAttributes, extensions } = certificate
  const { basicConstraints, keyUsage, extendedKeyUsage, subjectAltName, unknownCritical } = extensions
  if (unknownCritical || basicConstraints === null || basicConstraints.ca) return null
  // X509-SVID §4.3: a leaf signs data, never certificates.
  if (keyUsage === null || (keyUsage & KEY_USAGE.digitalSignature) === 0) return null
  if ((keyUsage & (KEY_USAGE.keyCertSign | KEY_USAGE.cRLSign)) !== 0) return null
  if (!extendedKeyUsage?.includes(OID.clientAuth)) return null

  // X509-SVID §2: exactly one URI; ours have no other name beside it.
  const [uri, ...others] = subjectAltName ?? []
  if (uri?.tag !== URI_NAME || others.length > 0) return null
  const spiffeId = String.fromCharCode(...uri.contents)
  const id = parseSpiffeId(spiffeId)
  if (id === null) return null

  const attribute = (type: string) => subjectAttributes.find((attribute) => attribute.type === type)?.text ?? null
  const origin = parseOrganizationalUnit(attribute(OID.organizationalUnit) ?? '')
  const enrollmentId = attribute(OID.commonName)
  if (subjectAttributes.length !== 3 || attribute(OID.organization) !== id.tenant) return null
  if (origin === null || enrollmentId === null || !isUuidv7(enrollmentId)) return null
  return { ...origin, ...id, spiffeId, enrollmentId }
}
