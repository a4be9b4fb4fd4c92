// The record that an enrollment object keeps, and how a renewal or a connection changes it. Pure.

import { type Leaf, type LeafContent, leafContentOf } from '../../protocol/leaf.ts'
import { CLOCK_LEEWAY, RENEWAL_GRACE } from '../../protocol/limits.ts'
import { MODES, mayStartLineage } from '../../protocol/modes.ts'
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

/** The enrollment as it begins. */
export interface EnrollmentStart {
  readonly enrollmentId: string
  readonly claims: Claims
  /** Tenant, mode and source are in every certificate of the enrollment. */
  readonly decision: Decision
  readonly instanceId: string | null
  readonly enrolledAt: EpochSeconds
  readonly certificate: LeafContent
}

export interface EnrollmentRecord extends Omit<EnrollmentStart, 'certificate'> {
  readonly lineage: Lineage
  /** The latest `notAfter` of any certificate of the enrollment: the lineage is needed until then. */
  readonly lastEnd: EpochSeconds
  readonly ended: { readonly reason: Reason; readonly at: EpochSeconds } | null
  /** Used challenges that have not expired. */
  readonly spent: readonly SpentChallenge[]
  /** When the object last updated the fleet row; null: never. */
  readonly rowWrittenAt: EpochSeconds | null
  /** A drain that has not been sent yet. */
  readonly drain: boolean
}

export interface SpentChallenge {
  readonly challenge: string
  readonly expiresAt: EpochSeconds
}

/** A use of a certificate, granted or refused. */
export interface Use<T> {
  /** The changed record, to be stored before the answer. Null: unchanged. */
  readonly record: EnrollmentRecord | null
  readonly result: Outcome<T>
}

export const startRecord = ({ certificate, ...start }: EnrollmentStart): EnrollmentRecord => ({
  ...start,
  lineage: startLineage(certificate),
  lastEnd: certificate.notAfter,
  ended: null,
  spent: [],
  rowWrittenAt: null,
  drain: false,
})

/** No certificate of the enrollment is accepted after this, so the record can go. */
export const forgottenAfter = (record: EnrollmentRecord): EpochSeconds =>
  addSeconds(addSeconds(record.lastEnd, RENEWAL_GRACE), CLOCK_LEEWAY)

/** The record that a presented certificate belongs to. A provisioned one may start a record. */
export function recordFor(
  stored: EnrollmentRecord | null,
  trust: CompiledTrust,
  presented: Leaf,
): Outcome<EnrollmentRecord> {
  if (stored !== null) return stored.ended === null ? ok(withTodaysRunnerId(stored, trust)) : refuse('enrollment_ended')
  const { mode, tenant } = presented
  if (!mayStartLineage(mode)) return refuse('lineage_missing')
  const claims: Claims = { mode, tenant }
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

/** Tenant, mode and source are in the certificates, so they stay; the runner ID is what today's trust file makes of the claims. */
function withTodaysRunnerId(record: EnrollmentRecord, trust: CompiledTrust): EnrollmentRecord {
  const today = decide(trust, record.claims)
  return today.ok ? { ...record, decision: { ...record.decision, runnerId: today.value.runnerId } } : record
}

export interface Renewal {
  /** The content to sign. */
  readonly certificate: LeafContent
  /** It was signed before, and the answer was lost. */
  readonly again: boolean
}

/** A renewal with `presented`. `candidate`: the content of a new certificate. */
export function renewalUse(
  record: EnrollmentRecord,
  trust: CompiledTrust,
  list: BanList,
  presented: Leaf,
  candidate: LeafContent,
  now: EpochSeconds,
): Use<Renewal> {
  const authorized = reauthorize(trust, list, { ...record, tenant: presented.tenant })
  if (!authorized.ok) return { record: null, result: authorized }
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

/** `late`: the parent's connection came just after the tip's first use; it is closed at once and is no clone. */
export type Connection = 'open' | 'late'

/** A connection with `presented`. `challenge`: the one that was signed; null where TLS proved the key. */
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
  const authorized = reauthorize(trust, list, { ...record, tenant: presented.tenant })
  if (!authorized.ok) return { record: null, result: authorized }
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

/** Connections of one enrollment within the 30 seconds that a challenge lives. */
const CHALLENGES_KEPT = 32

/** A use outside the lineage is refused. The trust file says whether it ends the enrollment, too. */
function clone(record: EnrollmentRecord, trust: CompiledTrust, now: EpochSeconds): Use<never> {
  return {
    record: trust.certificate.onClone === 'end' ? { ...record, ended: { reason: 'clone_suspected', at: now } } : null,
    result: refuse('clone_suspected'),
  }
}

/** Evidence of a platform must be renewed after `reattest`; what an operator issued is good until it is revoked. */
function mustReattest({ decision, enrolledAt }: EnrollmentRecord, trust: CompiledTrust, now: EpochSeconds): boolean {
  const { reattest } = trust.certificate
  return reattest !== null && MODES[decision.mode].reattests && now > addSeconds(enrolledAt, reattest)
}
