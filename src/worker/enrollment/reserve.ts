// The reserve step: what will be signed is on record before it is signed, and a retry finds that record again.

import { SAME_KEY_RETRY } from '../../protocol/limits.ts'
import { type Outcome, refuse } from '../../protocol/refusals.ts'
import { ok } from '../../protocol/result.ts'
import { type EpochSeconds, subtractSeconds, toEpochMilliseconds } from '../../protocol/time.ts'
import { uuidv7 } from '../../protocol/uuid.ts'
import type { BanList } from '../../trust/bans.ts'
import type { Claims } from '../../trust/claims.ts'
import type { Decision } from '../../trust/decide.ts'
import { tokenIdOf } from '../../trust/reauthorize.ts'
import type { Authority } from '../ca/authority.ts'
import type { CertificateRequest } from '../ca/csr.ts'
import {
  type EnrollmentRow,
  type Proposal,
  reserveWithBootstrapToken,
  reserveWithEvidence,
  type TokenReservation,
} from '../store/enrollments.ts'
import { candidateFor } from './candidate.ts'
import type { Door } from './dependencies.ts'

export interface Admission {
  readonly now: EpochSeconds
  readonly csr: CertificateRequest
  readonly claims: Claims
  readonly decision: Decision
  readonly instanceId: string | null
}

/** The enrollment that this caller has from now on: a new one, or its own of a moment ago. */
export async function reserve(door: Door, authority: Authority, admission: Admission): Promise<Outcome<EnrollmentRow>> {
  const { decision, claims, now } = admission
  const candidate = candidateFor(door, authority, decision.tenant, admission.csr, now)
  if (!candidate.ok) return candidate
  const proposal: Proposal = {
    id: uuidv7(toEpochMilliseconds(now)),
    mode: decision.mode,
    source: decision.source,
    tenant: decision.tenant,
    identity: decision.identity,
    runnerId: decision.runnerId,
    tokenId: tokenIdOf(claims),
    instanceId: admission.instanceId,
    enrolledAt: now,
    ...candidate.value,
  }
  if (claims.mode === 'bootstrap-token') {
    return tokenOutcome(await reserveWithBootstrapToken(door.database, claims.tokenId, proposal), proposal)
  }
  const enrollment = await reserveWithEvidence(door.database, proposal)
  return enrollment === null ? refuse('token_revoked') : ok(enrollment)
}

/** Starts the enrollment's own object. Of a retry it says whether the enrollment is still where the answer got lost. */
export async function begin(
  door: Door,
  admission: Admission,
  reserved: EnrollmentRow,
  bans: BanList,
): Promise<Outcome<null>> {
  const { claims, decision, instanceId } = admission
  const { id: enrollmentId, enrolledAt, serial, publicKeyHash, notBefore, notAfter, issuer } = reserved
  const certificate = { serial, publicKeyHash, notBefore, notAfter, issuer, spiffeId: reserved.spiffeId }
  return door
    .runnerOf(enrollmentId)
    .begin({ enrollmentId, claims, decision, instanceId, enrolledAt, certificate }, bans)
}

/** A consumed token still serves the key that consumed it, for 10 minutes: an answer can get lost on the way. */
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
