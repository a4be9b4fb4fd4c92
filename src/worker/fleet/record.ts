// The record that an enrollment object keeps, and how a renewal or a connection changes it. Pure.

import { type Leaf, type LeafContent, leafContentOf } from '../../protocol/leaf.ts'
import { CLOCK_LEEWAY, RENEWAL_GRACE } from '../../protocol/limits.ts'
import { MODES } from '../../protocol/modes.ts'
import type { Reason } from '../../protocol/reasons.ts'
import { type Outcome, refuse } from '../../protocol/refusals.ts'
import { ok } from '../../protocol/result.ts'
import { addSeconds, type EpochSeconds, epochSeconds } from '../../protocol/time.ts'
import type { BanList } from '../../trust/bans.ts'
import type { CompiledTrust } from '../../trust/compiled.ts'
import { type Decision, decide } from '../../trust/decide.ts'
import type { Claims } from '../../trust/modes/registry.ts'
import { reauthorize } from '../../trust/reauthorize.ts'
import { connectionVerdict, type Lineage, renewalVerdict, startLineage } from './lineage.ts'

/** What enrollment hands over. */
export interface EnrollmentStart {
  readonly enrollmentId: string
  readonly claims: Claims
  /** Whom enrollment decided it to be; its tenant, mode and source stand in every certificate of the enrollment. */
  readonly decision: Decision
  readonly instanceId: string | null
  readonly enrolledAt: EpochSeconds
  readonly certificate: LeafContent
}

export interface EnrollmentRecord {
  readonly enrollmentId: string
  readonly claims: Claims
  readonly decision: Decision
  readonly instanceId: string | null
  readonly enrolledAt: EpochSeconds
  readonly lineage: Lineage
  /** The latest end of any certificate of the enrollment: until then its history must be known. */
  readonly lastEnd: EpochSeconds
  readonly ended: { readonly reason: Reason; readonly at: EpochSeconds } | null
  /** Challenges that were used and have not expired. */
  readonly spent: readonly SpentChallenge[]
  /** When the fleet's row was last written; null: never by the object. */
  readonly rowWrittenAt: EpochSeconds | null
  /** An operator wants it drained, and it has not been told. */
  readonly drain: boolean
}

export interface SpentChallenge {
  readonly challenge: string
  readonly expiresAt: EpochSeconds
}

/** A change that is stored before the use is granted, or why it isn't granted (which may change the record too). */
export interface Use<T> {
  readonly record: EnrollmentRecord | null
  readonly result: Outcome<T>
}

export const startRecord = (start: EnrollmentStart): EnrollmentRecord => ({
  enrollmentId: start.enrollmentId,
  claims: start.claims,
  decision: start.decision,
  instanceId: start.instanceId,
  enrolledAt: start.enrolledAt,
  lineage: startLineage(start.certificate),
  lastEnd: start.certificate.notAfter,
  ended: null,
  spent: [],
  rowWrittenAt: null,
  drain: false,
})

/** From then on no certificate of the enrollment is accepted anywhere, and the record may go. */
export const forgottenAfter = (record: EnrollmentRecord): EpochSeconds =>
  addSeconds(addSeconds(record.lastEnd, RENEWAL_GRACE), CLOCK_LEEWAY)

/** The record that a presented certificate is used on: only a provisioned one may start a lineage. */
export function recordFor(
  stored: EnrollmentRecord | null,
  trust: CompiledTrust,
  presented: Leaf,
): Outcome<EnrollmentRecord> {
  if (stored !== null) return stored.ended === null ? ok(stored) : refuse('enrollment_ended')
  if (presented.mode !== 'provisioned') return refuse('lineage_missing')
  const claims: Claims = { mode: 'provisioned', tenant: presented.tenant }
  const decision = decide(trust, claims)
  if (!decision.ok) return refuse('standing_lost')
  return ok(
    startRecord({
      enrollmentId: presented.enrollmentId,
      claims,
      decision: decision.value,
      instanceId: null,
      enrolledAt: presented.notBefore,
      certificate: leafContentOf(presented),
    }),
  )
}

export interface Renewal {
  /** What is to be signed. */
  readonly certificate: LeafContent
  /** It was signed before: the answer was lost. */
  readonly again: boolean
}

/** A renewal with `presented`, where a new certificate would be `candidate`. */
export function renewalUse(
  record: EnrollmentRecord,
  trust: CompiledTrust,
  list: BanList,
  presented: Leaf,
  candidate: LeafContent,
  now: EpochSeconds,
): Use<Renewal> {
  const stands = reauthorize(trust, list, { ...record, tenant: presented.tenant })
  if (!stands.ok) return { record: null, result: stands }
  const verdict = renewalVerdict(record.lineage, presented, candidate, now)
  switch (verdict.verdict) {
    case 'clone':
      return clone(record, trust, now)
    case 'superseded':
      return { record: null, result: refuse('certificate_superseded') }
    case 'again':
      return {
        record: { ...record, lineage: verdict.next },
        result: ok({ certificate: verdict.certificate, again: true }),
      }
    case 'advance':
      if (mustReattest(record, trust, now)) return { record: null, result: refuse('reattest') }
      return {
        record: {
          ...record,
          lineage: verdict.next,
          lastEnd: epochSeconds(Math.max(record.lastEnd, candidate.notAfter)),
        },
        result: ok({ certificate: candidate, again: false }),
      }
  }
}

/** `late`: the parent's connection crossed the tip's first use; it is closed at once and is no evidence. */
export type Connection = 'open' | 'late'

/** A connection with `presented`; `challenge` is the one that was signed, where the certificate did not come in TLS. */
export function connectionUse(
  record: EnrollmentRecord,
  trust: CompiledTrust,
  list: BanList,
  presented: Leaf,
  challenge: SpentChallenge | null,
  now: EpochSeconds,
): Use<Connection> {
  const spent = record.spent.filter(({ expiresAt }) => expiresAt >= now)
  if (challenge !== null) {
    if (spent.some((used) => used.challenge === challenge.challenge) || spent.length >= CHALLENGES_KEPT) {
      return { record: null, result: refuse('proof_invalid') }
    }
    spent.push(challenge)
  }
  const stands = reauthorize(trust, list, { ...record, tenant: presented.tenant })
  if (!stands.ok) return { record: null, result: stands }
  const verdict = connectionVerdict(record.lineage, presented, now)
  switch (verdict.verdict) {
    case 'clone':
      return clone(record, trust, now)
    case 'replaced':
      return { record: { ...record, spent }, result: ok('late') }
    case 'accept':
      return { record: { ...record, spent, lineage: verdict.next }, result: ok('open') }
  }
}

/** Of one enrollment within the half minute that a challenge lives. */
const CHALLENGES_KEPT = 32

/** The use outside the lineage is refused either way; whether it ends the enrollment is the trust file's to say. */
function clone(record: EnrollmentRecord, trust: CompiledTrust, now: EpochSeconds): Use<never> {
  return {
    record: trust.certificate.onClone === 'end' ? { ...record, ended: { reason: 'clone_suspected', at: now } } : null,
    result: refuse('clone_suspected'),
  }
}

/** What a platform proved holds for so long; what an operator handed out holds until it is taken back. */
function mustReattest({ decision, enrolledAt }: EnrollmentRecord, trust: CompiledTrust, now: EpochSeconds): boolean {
  const { reattest } = trust.certificate
  return reattest !== null && MODES[decision.mode].reattests && now > addSeconds(enrolledAt, reattest)
}
