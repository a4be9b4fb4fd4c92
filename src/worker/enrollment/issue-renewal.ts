// Issues the renewed certificate of an enrollment: sign, then one call to the enrollment's object, which authorizes and
// records it.

import { type Outcome, refuse } from '../../protocol/refusals.ts'
import { err, ok } from '../../protocol/result.ts'
import { issueCertificate } from '../ca/issue.ts'
import { newLeafContent } from '../ca/profile.ts'
import type { PresentedLeaf } from '../fleet/record.ts'
import type { Dependencies } from './dependencies.ts'
import { type Facts, noteLeaf } from './event.ts'
import type { Issuance, Issued } from './issuance.ts'
import { clientKey } from './rate-limit.ts'

/**
 * The new certificate is signed before the call, since a second call would double the cost of a renewal; one that the
 * object does not record is dropped here. Tenant, mode, source and enrollment are those of the presented certificate;
 * trust domain and times are today's.
 */
export async function issueRenewal(
  deps: Dependencies,
  { authority, csr, now, waitUntil }: Issuance,
  presented: PresentedLeaf,
  facts: Facts,
): Promise<Outcome<Issued>> {
  const { enrollmentId, tenant, mode, source } = presented
  noteLeaf(facts, presented)
  const bans = await deps.shards.of(tenant).banList(waitUntil)
  if (!bans.ok) return bans
  const { spki, publicKeyHash } = csr
  // A replayed request proves nothing. It asks for the same key again, so it uses up the rate of that key alone.
  if (!(await deps.withinRate('identities', clientKey(tenant, `${enrollmentId}/${publicKeyHash}`))))
    return refuse('rate_limited')
  const { trustDomain, certificate: policy } = deps.trust
  const content = newLeafContent(authority, now, policy.lifetime, { trustDomain, tenant, publicKeyHash })
  if (!content.ok) return content
  const subject = { enrollmentId, tenant, mode, source }
  const { der } = await issueCertificate(authority, { ...subject, ...content.value, spki })
  const candidate = { ...content.value, der }
  const answer = await deps.enrollmentObject(enrollmentId).renew(presented, candidate, bans.value)
  const { identity, runnerId, refusal, again } = answer
  Object.assign(facts, { identity, runnerId })
  if (refusal !== null) return err(refusal)
  // Only the holder of the certificate's key gets here with a new key.
  if (again === null && !(await deps.withinRate('identities', clientKey(tenant, enrollmentId))))
    return refuse('rate_limited')
  return ok({ ...subject, ...(again ?? candidate), runnerId })
}
