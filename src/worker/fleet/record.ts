// What the object of an enrollment remembers, as one stored value, and how uses of it change that value. Pure.

import { CLOCK_LEEWAY, RENEWAL_GRACE } from '../../protocol/limits.ts'
import type { Reason } from '../../protocol/reasons.ts'
import { type Outcome, refuse } from '../../protocol/refusals.ts'
import { ok } from '../../protocol/result.ts'
import { addSeconds, type EpochSeconds, epochSeconds } from '../../protocol/time.ts'
import type { BanList } from '../../trust/bans.ts'
import type { Claims } from '../../trust/claims.ts'
import type { CompiledTrust } from '../../trust/compiled.ts'
import { type Decision, decide } from '../../trust/decide.ts'
import { standing } from '../../trust/reauthorize.ts'
import { type Certificate, connectionVerdict, type Lineage, renewalVerdict, startLineage } from './lineage.ts'

/** What enrollment hands over. */
export interface EnrollmentStart {
  readonly enrollmentId: string
  readonly claims: Claims
  /** Whom enrollment decided it to be; its tenant, mode and source stand in every certificate of the enrollment. */
  readonly decision: Decision
  readonly instanceId: string | null
  readonly enrolledAt: EpochSeconds
  readonly certificate: Certificate
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
  readonly shownAt: EpochSeconds | null
  /** An operator wants it drained, and it has not been told. */
  readonly drain: boolean
}

export interface SpentChallenge {
  readonly challenge: string
  readonly expiresAt: EpochSeconds
}

/** A certificate of ours that was shown and verified. */
export interface ShownCertificate extends Certificate {
  readonly enrollmentId: string
  readonly tenant: string
  /** Whether the operator issued it from the CA folder. */
  readonly provisioned: boolean
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
  shownAt: null,
  drain: false,
})

/** From then on no certificate of the enrollment is accepted anywhere, and the record may go. */
export const forgottenAfter = (record: EnrollmentRecord): EpochSeconds =>
  addSeconds(addSeconds(record.lastEnd, RENEWAL_GRACE), CLOCK_LEEWAY)

/** The record of whoever shows a certificate: only a provisioned one may start a lineage. */
export function recordFor(
  stored: EnrollmentRecord | null,
  trust: CompiledTrust,
  shown: ShownCertificate,
): Outcome<EnrollmentRecord> {
  if (stored !== null) return stored.ended === null ? ok(stored) : refuse('enrollment_ended')
  if (!shown.provisioned) return refuse('lineage_missing')
  const claims: Claims = { mode: 'provisioned', tenant: shown.tenant }
  const decision = decide(trust, claims)
  if (!decision.ok) return refuse('standing_lost')
  const { enrollmentId, tenant, provisioned, ...certificate } = shown
  return ok(
    startRecord({
      enrollmentId,
      claims,
      decision: decision.value,
      instanceId: null,
      enrolledAt: certificate.notBefore,
      certificate,
    }),
  )
}

export interface Renewal {
  /** What is to be signed. */
  readonly certificate: Certificate
  /** It was signed before: the answer was lost. */
  readonly again: boolean
}

/** A renewal with `shown`, where a new certificate would be `candidate`. */
export function renew(
  record: EnrollmentRecord,
  trust: CompiledTrust,
  list: BanList,
  shown: ShownCertificate,
  candidate: Certificate,
  now: EpochSeconds,
): Use<Renewal> {
  const stands = standing(trust, list, { ...record, tenant: shown.tenant })
  if (!stands.ok) return { record: null, result: stands }
  const verdict = renewalVerdict(record.lineage, shown, candidate, now)
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

/** A connection with `shown`; `challenge` is the one that was signed, where the certificate did not come in TLS. */
export function connect(
  record: EnrollmentRecord,
  trust: CompiledTrust,
  list: BanList,
  shown: ShownCertificate,
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
  const stands = standing(trust, list, { ...record, tenant: shown.tenant })
  if (!stands.ok) return { record: null, result: stands }
  const verdict = connectionVerdict(record.lineage, shown, now)
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
function mustReattest({ claims, enrolledAt }: EnrollmentRecord, trust: CompiledTrust, now: EpochSeconds): boolean {
  const { reattest } = trust.certificate
  if (reattest === null) return false
  switch (claims.mode) {
    case 'bootstrap-token':
    case 'runner-token':
    case 'provisioned':
      return false
    case 'aws-sts':
    case 'gke-oidc':
    case 'eks-oidc':
    case 'kubernetes':
      return now > addSeconds(enrolledAt, reattest)
  }
}
