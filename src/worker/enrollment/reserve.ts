// The decide and the reserve step of an enrollment. What will be signed is on record before it is signed, and a retry
// finds that record again.

import { leafContentOf } from '../../protocol/leaf.ts'
import { SAME_KEY_RETRY } from '../../protocol/limits.ts'
import { MODES } from '../../protocol/modes.ts'
import { type Outcome, refuse } from '../../protocol/refusals.ts'
import { ok } from '../../protocol/result.ts'
import { type EpochSeconds, subtractSeconds, toEpochMilliseconds } from '../../protocol/time.ts'
import { uuidv7 } from '../../protocol/uuid.ts'
import { type BanList, findBan } from '../../trust/bans.ts'
import { clientOf, type Decision, decide, tokenIdOf } from '../../trust/decide.ts'
import type { Claims } from '../../trust/modes/registry.ts'
import type { Authority } from '../ca/authority.ts'
import type { CertificateRequest } from '../ca/csr.ts'
import {
  type EnrollmentRow,
  type Proposal,
  reserveWithBootstrapToken,
  reserveWithEvidence,
  type TokenReservation,
} from '../store/enrollments.ts'
import { contentFor } from './answer.ts'
import type { Dependencies } from './dependencies.ts'
import type { Facts } from './event.ts'

export interface Decided {
  readonly decision: Decision
  /** What the decision was held against. */
  readonly bans: BanList
}

/** Which tenant the proven facts mean, whether it is banned or too fast. Fills in the facts that are proven by now. */
export async function decideAndLimit(deps: Dependencies, claims: Claims, facts: Facts): Promise<Outcome<Decided>> {
  facts.proven = true
  const decision = decide(deps.trust, claims)
  if (!decision.ok) return decision
  Object.assign(facts, decision.value)

  const bans = await deps.banList()
  if (!bans.ok) return bans
  const subject = { ...decision.value, enrollmentId: null, tokenId: tokenIdOf(decision.value) }
  if (findBan(bans.value, subject) !== null) return refuse('banned')

  const client = clientOf(claims, decision.value)
  if (!(await deps.withinRate('identities', client))) return refuse('rate_limited')
  if (!(await deps.withinRate('tenants', decision.value.tenant))) return refuse('rate_limited')
  return ok({ decision: decision.value, bans: bans.value })
}

export interface Admission {
  readonly now: EpochSeconds
  readonly csr: CertificateRequest
  readonly claims: Claims
  readonly decision: Decision
  readonly instanceId: string | null
}

/** The enrollment that this caller has from now on: a new one, or its own of a moment ago. */
export async function reserve(
  deps: Dependencies,
  authority: Authority,
  admission: Admission,
): Promise<Outcome<EnrollmentRow>> {
  const { decision, now } = admission
  const content = contentFor(deps, authority, decision.tenant, admission.csr, now)
  if (!content.ok) return content
  const tokenId = tokenIdOf(decision)
  const proposal: Proposal = {
    enrollmentId: uuidv7(toEpochMilliseconds(now)),
    ...decision,
    tokenId,
    instanceId: admission.instanceId,
    enrolledAt: now,
    ...content.value,
  }
  if (tokenId !== null && !MODES[decision.mode].reusable) {
    return tokenOutcome(await reserveWithBootstrapToken(deps.database, tokenId, proposal), proposal)
  }
  const enrollment = await reserveWithEvidence(deps.database, proposal)
  return enrollment === null ? refuse('token_revoked') : ok(enrollment)
}

/** Starts the enrollment's object. Of a retry it says whether the enrollment is still where the answer got lost. */
export function begin(
  deps: Dependencies,
  { claims, decision, instanceId }: Admission,
  reserved: EnrollmentRow,
  bans: BanList,
): Promise<Outcome<null>> {
  const { enrollmentId, enrolledAt } = reserved
  const certificate = leafContentOf(reserved)
  return deps
    .enrollmentObject(enrollmentId)
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
