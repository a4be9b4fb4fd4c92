// What a certificate will say, before it is reserved; and, once it is, the answer that carries it.

import type { EnrollAnswer } from '../../protocol/enroll.ts'
import type { Leaf, LeafContent } from '../../protocol/leaf.ts'
import type { Outcome } from '../../protocol/refusals.ts'
import { ok } from '../../protocol/result.ts'
import { formatSpiffeId } from '../../protocol/spiffe-id.ts'
import { type EpochSeconds, rfc3339 } from '../../protocol/time.ts'
import type { Authority } from '../ca/authority.ts'
import { chainPem, trustBundlePem } from '../ca/bundle.ts'
import type { CertificateRequest } from '../ca/csr.ts'
import { issueCertificate } from '../ca/issue.ts'
import { newSerial, validityOf } from '../ca/profile.ts'
import type { Dependencies } from './dependencies.ts'

/** A certificate that is on record, in D1 at enrollment or in the enrollment's object at renewal. */
export interface Reserved extends Leaf {
  readonly runnerId: string | null
}

/** The content of a new certificate; refused while the CA cannot issue a whole lifetime. */
export function contentFor(
  { trust }: Dependencies,
  authority: Authority,
  tenant: string,
  csr: CertificateRequest,
  now: EpochSeconds,
): Outcome<LeafContent> {
  const validity = validityOf(authority, now, trust.certificate.lifetime)
  if (!validity.ok) return validity
  return ok({
    serial: newSerial(),
    publicKeyHash: csr.publicKeyHash,
    spiffeId: formatSpiffeId({ trustDomain: trust.trustDomain, tenant }),
    ...validity.value,
    issuer: authority.issuerKeyId,
  })
}

/** Issues the reserved certificate for the key of the CSR. */
export async function answerWith(
  authority: Authority,
  reserved: Reserved,
  csr: CertificateRequest,
  now: EpochSeconds,
): Promise<EnrollAnswer> {
  const { pem } = await issueCertificate(authority, { ...reserved, spki: csr.spki })
  return {
    version: 1,
    certificate: pem,
    chain: chainPem(authority),
    trustBundle: trustBundlePem(authority),
    spiffeId: reserved.spiffeId,
    tenant: reserved.tenant,
    runnerId: reserved.runnerId,
    enrollmentId: reserved.enrollmentId,
    notBefore: rfc3339(reserved.notBefore),
    notAfter: rfc3339(reserved.notAfter),
    serverTime: rfc3339(now),
  }
}
