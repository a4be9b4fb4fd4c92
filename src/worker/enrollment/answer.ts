// The last two steps: the certificate of a reservation, and the answer that carries it.

import type { EnrollAnswer } from '../../protocol/enroll.ts'
import type { ProvenMode } from '../../protocol/modes.ts'
import { type EpochSeconds, rfc3339 } from '../../protocol/time.ts'
import type { Authority } from '../ca/authority.ts'
import { chainPem, trustBundlePem } from '../ca/bundle.ts'
import type { CertificateRequest } from '../ca/csr.ts'
import { issueCertificate } from '../ca/issue.ts'
import { formatOrganizationalUnit } from '../ca/profile.ts'

/** What was reserved, at enrollment in D1 or at renewal in the enrollment's own object. */
export interface Reserved {
  readonly id: string
  readonly mode: ProvenMode
  readonly source: string
  readonly tenant: string
  readonly runnerId: string | null
  readonly serial: string
  readonly spiffeId: string
  readonly notBefore: EpochSeconds
  readonly notAfter: EpochSeconds
}

export async function answerOf(
  authority: Authority,
  reserved: Reserved,
  csr: CertificateRequest,
  now: EpochSeconds,
): Promise<EnrollAnswer> {
  const { pem } = await issueCertificate(authority, {
    serial: reserved.serial,
    enrollmentId: reserved.id,
    spki: csr.spki,
    tenant: reserved.tenant,
    organizationalUnit: formatOrganizationalUnit(reserved),
    spiffeId: reserved.spiffeId,
    notBefore: reserved.notBefore,
    notAfter: reserved.notAfter,
  })
  return {
    version: 1,
    certificate: pem,
    chain: chainPem(authority),
    trustBundle: trustBundlePem(authority),
    spiffeId: reserved.spiffeId,
    tenant: reserved.tenant,
    runnerId: reserved.runnerId,
    enrollmentId: reserved.id,
    notBefore: rfc3339(reserved.notBefore),
    notAfter: rfc3339(reserved.notAfter),
    serverTime: rfc3339(now),
  }
}
