// Reserves and issues the certificate of an enrollment and of a renewal. The enrollment's object has the signed
// certificate on record before it is sent, and answers a retry with it.

import type { Bytes } from '../../protocol/bytes.ts'
import { type Leaf, type LeafContent, type LeafSubject, leafContentOf } from '../../protocol/leaf.ts'
import { SAME_KEY_RETRY } from '../../protocol/limits.ts'
import { MODES } from '../../protocol/modes.ts'
import { type Outcome, refuse } from '../../protocol/refusals.ts'
import { ok } from '../../protocol/result.ts'
import { type EpochSeconds, subtractSeconds, toEpochMilliseconds } from '../../protocol/time.ts'
import { uuidv7 } from '../../protocol/uuid.ts'
import { tokenIdOf } from '../../trust/decide.ts'
import type { Claims } from '../../trust/modes/registry.ts'
import type { Authority } from '../ca/authority.ts'
import type { CertificateRequest } from '../ca/csr.ts'
import { issueCertificate } from '../ca/issue.ts'
import { newLeafContent } from '../ca/profile.ts'
import { isFresh, type SignedLeaf } from '../fleet/lineage.ts'
import type { BatchDatabase } from '../store/db.ts'
import {
  type EnrollmentRow,
  type Proposal,
  reserveWithBootstrapToken,
  reserveWithEvidence,
  type TokenReservation,
} from '../store/enrollments.ts'
import { authorize } from './authorize.ts'
import type { Dependencies } from './dependencies.ts'
import { type Facts, noteLeaf } from './event.ts'
import { clientKey } from './rate-limit.ts'

/** What a certificate is issued from, beside what the caller proved. */
export interface Issuance {
  readonly authority: Authority
  readonly csr: CertificateRequest
  readonly now: EpochSeconds
}

/** A certificate that is on record. */
export interface Issued extends Leaf {
  readonly der: Bytes
  readonly runnerId: string | null
}

/** For a caller without a certificate: a new enrollment, or that of its last try. It is in D1 before it is signed. */
export async function issueEnrollment(
  deps: Dependencies,
  issuance: Issuance,
  claims: Claims,
  facts: Facts,
): Promise<Outcome<Issued>> {
  const authorized = await authorize(deps, claims, facts)
  if (!authorized.ok) return authorized
  const { decision, bans } = authorized.value
  const content = newContent(deps, issuance, decision.tenant)
  if (!content.ok) return content

  const instanceId = facts.instanceId ?? null
  const proposal: Proposal = {
    enrollmentId: uuidv7(toEpochMilliseconds(issuance.now)),
    ...decision,
    tokenId: tokenIdOf(decision),
    instanceId,
    enrolledAt: issuance.now,
    ...content.value,
  }
  const reserved = await recordProposal(deps.database, proposal)
  if (!reserved.ok) return reserved
  const { enrollmentId, enrolledAt, runnerId } = reserved.value
  facts.enrollmentId = enrollmentId

  // What an earlier try put on record is signed again, unless half of its life has passed meanwhile.
  const onRecord = leafContentOf(reserved.value)
  const signed = isFresh(onRecord, content.value, issuance.now) ? onRecord : content.value
  const { tenant, mode, source } = decision
  const subject = { enrollmentId, tenant, mode, source }
  const certificate = await sign(issuance, subject, signed)
  const begun = await deps
    .enrollmentObject(enrollmentId)
    .begin({ enrollmentId, claims, decision, instanceId, enrolledAt, certificate }, bans)
  return begun.ok ? ok({ ...subject, ...begun.value, runnerId }) : begun
}

/**
 * For the holder of a certificate: one call to the enrollment's object authorizes and records. The new certificate is
 * signed before the call, since a second call would double the cost of a renewal. A certificate that the object does not
 * record is dropped here. Tenant, mode, source and enrollment are those of the presented certificate; trust domain and
 * times are today's.
 */
export async function issueRenewal(
  deps: Dependencies,
  issuance: Issuance,
  presented: Leaf,
  facts: Facts,
): Promise<Outcome<Issued>> {
  const { enrollmentId, tenant, mode, source } = presented
  noteLeaf(facts, presented)
  const bans = await deps.banList()
  if (!bans.ok) return bans
  // A replayed request proves nothing. It asks for the same key again, so it uses up the rate of that key alone.
  const asked = clientKey(tenant, `${enrollmentId}/${issuance.csr.publicKeyHash}`)
  if (!(await deps.withinRate('identities', asked))) return refuse('rate_limited')
  const content = newContent(deps, issuance, tenant)
  if (!content.ok) return content
  const subject = { enrollmentId, tenant, mode, source }
  const candidate = await sign(issuance, subject, content.value)
  const { known, result } = await deps.enrollmentObject(enrollmentId).renew(presented, candidate, bans.value)
  const runnerId = known?.runnerId ?? null
  Object.assign(facts, { identity: known?.identity ?? null, runnerId })
  if (!result.ok) return result
  const { certificate, again } = result.value
  // Only the holder of the certificate's key gets here with a new key.
  if (!again && !(await deps.withinRate('identities', clientKey(tenant, enrollmentId)))) return refuse('rate_limited')
  return ok({ ...subject, ...certificate, runnerId })
}

async function sign({ authority, csr }: Issuance, subject: LeafSubject, content: LeafContent): Promise<SignedLeaf> {
  const { der } = await issueCertificate(authority, { ...subject, ...content, spki: csr.spki })
  return { ...content, der }
}

/** Trust domain and lifetime are today's. */
const newContent = ({ trust }: Dependencies, { authority, csr, now }: Issuance, tenant: string): Outcome<LeafContent> =>
  newLeafContent(authority, now, trust.certificate.lifetime, {
    trustDomain: trust.trustDomain,
    tenant,
    publicKeyHash: csr.publicKeyHash,
  })

async function recordProposal(database: BatchDatabase, proposal: Proposal): Promise<Outcome<EnrollmentRow>> {
  const { tokenId, mode } = proposal
  if (tokenId !== null && !MODES[mode].reusable) {
    return tokenOutcome(await reserveWithBootstrapToken(database, tokenId, proposal), proposal)
  }
  const enrollment = await reserveWithEvidence(database, proposal)
  return enrollment === null ? refuse('token_revoked') : ok(enrollment)
}

/** A consumed token still serves the key that consumed it, for 10 minutes, because an answer can be lost. */
function tokenOutcome(reservation: TokenReservation | null, proposal: Proposal): Outcome<EnrollmentRow> {
  if (reservation === null) return refuse('token_unknown')
  const { token, enrollment } = reservation
  const claimed = { token: token.id }
  if (token.revokedAt !== null) return refuse('token_revoked', { claimed })
  if (token.usedAt === null || enrollment === null) return refuse('token_expired', { claimed })
  if (token.usedBy !== proposal.publicKeyHash) return refuse('token_used', { claimed })
  if (token.usedAt < subtractSeconds(proposal.enrolledAt, SAME_KEY_RETRY))
    return refuse('token_retry_over', { claimed })
  if (enrollment.endedAt !== null) return refuse('enrollment_ended', { claimed })
  return ok(enrollment)
}
