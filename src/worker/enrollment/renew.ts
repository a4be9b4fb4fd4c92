// What a renewal has in place of decide and reserve: one call to the enrollment's own object does both.

import { type Outcome, refuse } from '../../protocol/refusals.ts'
import { ok } from '../../protocol/result.ts'
import type { EpochSeconds } from '../../protocol/time.ts'
import type { ProvenCertificate } from '../attestors/mtls-renewal.ts'
import type { Authority } from '../ca/authority.ts'
import type { CertificateRequest } from '../ca/csr.ts'
import type { ShownCertificate } from '../fleet/record.ts'
import type { Reserved } from './answer.ts'
import { candidateFor } from './candidate.ts'
import type { Door } from './dependencies.ts'
import type { Facts } from './event.ts'

/** Tenant, origin and enrollment are the certificate's; the trust domain and the times are today's. */
export async function renew(
  door: Door,
  authority: Authority,
  certificate: ProvenCertificate,
  csr: CertificateRequest,
  now: EpochSeconds,
  facts: Facts,
): Promise<Outcome<Reserved>> {
  const { enrollmentId: id, tenant, mode, source } = certificate
  noteCertificate(facts, certificate)
  const bans = await door.banList()
  if (!bans.ok) return bans
  if (!(await door.withinRate('identities', id))) return refuse('rate_limited')
  const candidate = candidateFor(door, authority, tenant, csr, now)
  if (!candidate.ok) return candidate
  const { known, result } = await door.runnerOf(id).renew(shownOf(certificate), candidate.value, bans.value)
  facts.identity = known?.identity ?? null
  facts.runnerId = known?.runnerId ?? null
  if (!result.ok) return result
  return ok({ id, tenant, mode, source, runnerId: facts.runnerId, ...result.value.certificate })
}

/** A proven certificate as the object of its enrollment takes it. */
export const shownOf = (certificate: ProvenCertificate): ShownCertificate => ({
  enrollmentId: certificate.enrollmentId,
  tenant: certificate.tenant,
  provisioned: certificate.mode === 'provisioned',
  serial: certificate.serial,
  publicKeyHash: certificate.publicKeyHash,
  spiffeId: certificate.spiffeId,
  notBefore: certificate.notBefore,
  notAfter: certificate.notAfter,
  issuer: certificate.issuerKeyId,
})

/** What a proven certificate says of its holder. */
export function noteCertificate(facts: Facts, certificate: ProvenCertificate): void {
  const { tenant, source, enrollmentId, serial, spiffeId } = certificate
  Object.assign(facts, { proven: true, tenant, source, enrollmentId, serial, spiffeId })
}
