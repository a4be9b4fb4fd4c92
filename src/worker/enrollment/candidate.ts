// The certificate that a caller will get if nothing was reserved for it before: all of it is known before it is signed.

import type { Outcome } from '../../protocol/refusals.ts'
import { ok } from '../../protocol/result.ts'
import { formatSpiffeId } from '../../protocol/spiffe-id.ts'
import type { EpochSeconds } from '../../protocol/time.ts'
import type { Authority } from '../ca/authority.ts'
import type { CertificateRequest } from '../ca/csr.ts'
import { newSerial, validityOf } from '../ca/profile.ts'
import type { Certificate } from '../fleet/lineage.ts'
import type { Door } from './dependencies.ts'

/** Trust domain and times are today's; refused while the CA cannot issue a whole lifetime. */
export function candidateFor(
  { trust }: Pick<Door, 'trust'>,
  authority: Authority,
  tenant: string,
  csr: CertificateRequest,
  now: EpochSeconds,
): Outcome<Certificate> {
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
