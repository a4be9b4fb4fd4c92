// The record that an enrollment object keeps, and how a renewal or a connection changes it. Pure.

import { type Leaf, type LeafContent, leafContentOf } from '../../protocol/leaf.ts'
import { MODES, mayStartLineage } from '../../protocol/modes.ts'
import type { Reason } from '../../protocol/reasons.ts'
import { type Outcome, refuse } from '../../protocol/refusals.ts'
import { ok } from '../../protocol/result.ts'
import { addSeconds, type EpochSeconds, epochSeconds } from '../../protocol/time.ts'
import type { BanList } from '../../trust/bans.ts'
import type { CompiledTrust } from '../../trust/compiled.ts'
import { type Decision, decide, tokenIdOf } from '../../trust/decide.ts'
import type { Claims } from '../../trust/modes/registry.ts'
import { reauthorize } from '../../trust/reauthorize.ts'
import {
  connectionVerdict,
  type Lineage,
  renewalVerdict,
  repeatedEnrollment,
  type SignedLeaf,
  startAnew,
  startLineage,
} from './lineage.ts'
import { REPLAY_MEMORY_MARGIN, renewableUntil } from './windows.ts'

/** The enrollment as it begins. */
export interface EnrollmentStart {
  readonly enrollmentId: string
  readonly claims: Claims
  /** Tenant, mode and source are in every certificate of the enrollment. */
  readonly decision: Decision
  readonly instanceId: string | null
  readonly enrolledAt: EpochSeconds
  readonly certificate: SignedLeaf
}

export interface EnrollmentRecord extends Omit<EnrollmentStart, 'certificate'> {
  readonly lineage: Lineage
  /** What the runner says it is; null: it has not said so. */
  readonly agent: string | null
  /** The latest `notAfter` of any certificate of the enrollment: the lineage is needed until then. */
  readonly lastEnd: EpochSeconds
  readonly ended: { readonly reason: Reason; readonly at: EpochSeconds } | null
  /** Used challenges, each with the serial of the certificate whose key signed it. */
  readonly spent: readonly (SpentChallenge & { readonly serial: string })[]
  /** The fleet row as the object last wrote it; null: never, or that failed. */
  readonly row: { readonly writtenAt: EpochSeconds; readonly liveUntil: EpochSeconds } | null
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

/** The outcome of a call. */
export interface Answer<T> {
  /** The identity on record, also where the call is refused. Null without a record. */
  readonly known: Decision | null
  readonly result: Outcome<T>
}

function startRecord({
  certificate,
  ...start
}: Omit<EnrollmentStart, 'certificate'> & { certificate: SignedLeaf | Leaf }): EnrollmentRecord {
  return {
    ...start,
    lineage: startLineage(certificate, mayStartLineage(start.decision.mode)),
    agent: null,
    lastEnd: certificate.notAfter,
    ended: null,
    spent: [],
    row: null,
    drain: false,
  }
}

/** No certificate of the enrollment is accepted after this, so the record can go. */
export const forgottenAfter = ({ lastEnd }: EnrollmentRecord): EpochSeconds =>
  addSeconds(renewableUntil({ notAfter: lastEnd }), REPLAY_MEMORY_MARGIN)

/**
 * The enrollment begins. Whoever asks again with the same key gets the same certificate, or a newer one of the same
 * enrollment once half of its life has passed, unless the enrollment has renewed or was cut off meanwhile.
 */
export function beginUse(
  stored: EnrollmentRecord | null,
  trust: CompiledTrust,
  list: BanList,
  start: EnrollmentStart,
  now: EpochSeconds,
): Use<SignedLeaf> {
  const record = stored ?? startRecord(start)
  if (record.ended !== null) return { record: null, result: refuse('enrollment_ended') }
  const repeated = repeatedEnrollment(record.lineage, start.certificate, now)
  if (repeated === null) return { record: null, result: refuse('token_retry_over') }
  const authorized = reauthorize(trust, list, { ...record, tenant: record.decision.tenant })
  if (!authorized.ok) return { record: null, result: authorized }
  const changed = repeated.verdict === 'grant' ? withLineage(record, repeated.next) : record
  return { record: changed === stored ? null : changed, result: ok(signedTip(changed.lineage)) }
}

/** By the trust file as it is now, where it still places the enrollment: it may attest no runner ID any more. */
export function decisionToday({ claims, decision }: EnrollmentRecord, trust: CompiledTrust): Decision {
  const today = decide(trust, claims)
  return today.ok ? today.value : decision
}

/** The record that a presented certificate belongs to. A provisioned one may start a record. */
export function recordFor(
  stored: EnrollmentRecord | null,
  trust: CompiledTrust,
  presented: Leaf,
): Outcome<EnrollmentRecord> {
  if (stored !== null) return stored.ended === null ? ok(stored) : refuse('enrollment_ended')
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
      certificate: presented,
    }),
  )
}

export interface Renewal {
  readonly certificate: SignedLeaf
  /** It was given out before. */
  readonly again: boolean
  /** The lineage started anew: the tunnels of the one before are closed. */
  readonly retires: boolean
}

/** A renewal with `presented`. `candidate`: a new certificate, which leaves only if it is granted and on record. */
export function renewalUse(
  record: EnrollmentRecord,
  trust: CompiledTrust,
  list: BanList,
  presented: Leaf,
  candidate: SignedLeaf,
  now: EpochSeconds,
): Use<Renewal> {
  // Judged here too: what is remembered of a certificate is dropped by this clock.
  if (now > renewableUntil(presented)) return { record: null, result: refuse('renewal_window') }
  const authorized = reauthorize(trust, list, { ...record, tenant: presented.tenant })
  if (!authorized.ok) return { record: null, result: authorized }
  const verdict = renewalVerdict(record.lineage, presented, candidate, now)
  switch (verdict.verdict) {
    case 'clone':
      return { record: endedByClone(record, trust, now), result: refuse('clone_suspected') }
    case 'superseded':
      return { record: null, result: refuse('superseded') }
    case 'again': {
      const { next } = verdict
      const changed = next === record.lineage ? null : { ...record, lineage: next }
      return { record: changed, result: ok({ certificate: signedTip(next), again: true, retires: false }) }
    }
    case 'grant': {
      if (mustReattest(record, trust, now)) return { record: null, result: refuse('reattest') }
      const { next, retires } = verdict
      return { record: withLineage(record, next), result: ok({ certificate: signedTip(next), again: false, retires }) }
    }
  }
}

/** `late`: the parent's came just after the tip's first use, and is closed. `anew`: see `ConnectionVerdict`. */
export type Connection = 'open' | 'late' | 'anew'

/** A connection with `presented`. `challenge`: the one that was signed; null where TLS proved the key. */
export function connectionUse(
  before: EnrollmentRecord,
  trust: CompiledTrust,
  list: BanList,
  presented: Leaf,
  challenge: SpentChallenge | null,
  now: EpochSeconds,
): Use<Connection> {
  const spending = challenge === null ? ok(before) : spend(before, { ...challenge, serial: presented.serial }, now)
  if (!spending.ok) return { record: null, result: spending }
  const record = spending.value
  // Whatever comes of it, a challenge serves once.
  const kept = record === before ? null : record
  if (now > presented.notAfter) return { record: kept, result: refuse('certificate_expired') }
  const authorized = reauthorize(trust, list, { ...record, tenant: presented.tenant })
  if (!authorized.ok) return { record: kept, result: authorized }
  const verdict = connectionVerdict(record.lineage, presented, now)
  switch (verdict.verdict) {
    case 'clone':
      return { record: endedByClone(record, trust, now) ?? kept, result: refuse('clone_suspected') }
    case 'late':
    case 'anew':
      return { record: kept, result: ok(verdict.verdict) }
    case 'accept':
      return { record: { ...record, lineage: verdict.next }, result: ok('open') }
  }
}

interface Said extends Pick<EnrollmentRecord, 'instanceId' | 'agent'> {
  /** The certificate with which the lineage starts anew; null where it goes on. */
  readonly origin: LeafContent | null
}

/** The record after a hello; the same one where that changes nothing. */
export function afterHello(record: EnrollmentRecord, said: Said, now: EpochSeconds): EnrollmentRecord {
  const { origin } = said
  const [instanceId, agent] = [said.instanceId ?? record.instanceId, said.agent ?? record.agent]
  const isNew = instanceId !== record.instanceId || agent !== record.agent || record.drain || origin !== null
  const lineage = origin === null ? record.lineage : startAnew(record.lineage, origin, now)
  return isNew ? { ...record, lineage, instanceId, agent, drain: false } : record
}

/** The record with one more challenge used. */
function spend(
  record: EnrollmentRecord,
  challenge: EnrollmentRecord['spent'][number],
  now: EpochSeconds,
): Outcome<EnrollmentRecord> {
  const spent = record.spent.filter(({ expiresAt }) => addSeconds(expiresAt, REPLAY_MEMORY_MARGIN) >= now)
  const isSpent = spent.some((used) => used.challenge === challenge.challenge)
  const own = spent.filter(({ serial }) => serial === challenge.serial)
  const isFull = spent.length >= CHALLENGES_KEPT || own.length >= CHALLENGES_OF_ONE
  if (now > challenge.expiresAt || isSpent || isFull) return refuse('proof_invalid')
  return ok({ ...record, spent: [...spent, challenge] })
}

/** Connections of one enrollment within the 90 seconds for which a challenge is remembered. */
const CHALLENGES_KEPT = 96
/** Of these those of one certificate, so that the holder of an old one cannot shut out the runner. */
const CHALLENGES_OF_ONE = 48

const withLineage = (record: EnrollmentRecord, lineage: Lineage): EnrollmentRecord => ({
  ...record,
  lineage,
  lastEnd: epochSeconds(Math.max(record.lastEnd, lineage.tip.notAfter)),
})

function signedTip({ tip }: Lineage): SignedLeaf {
  if (tip.der === null) throw new Error('a certificate was granted that was not signed here')
  return { ...leafContentOf(tip), der: tip.der }
}

/** Whether the token that the enrollment was made with was revoked: that ends it for good, whatever else holds. */
export function isRevoked({ decision }: EnrollmentRecord, { revokedTokens }: BanList): boolean {
  const tokenId = tokenIdOf(decision)
  return tokenId !== null && revokedTokens.includes(tokenId)
}

/** A use outside the lineage is refused. The trust file says whether it ends the enrollment, too; null where it does not. */
const endedByClone = (record: EnrollmentRecord, trust: CompiledTrust, now: EpochSeconds): EnrollmentRecord | null =>
  trust.certificate.onClone === 'end' ? { ...record, ended: { reason: 'clone_suspected', at: now } } : null

/** Evidence of a platform must be renewed after `reattest`; what an operator issued is good until it is revoked. */
function mustReattest({ decision, enrolledAt }: EnrollmentRecord, trust: CompiledTrust, now: EpochSeconds): boolean {
  const { reattest } = trust.certificate
  return reattest !== null && MODES[decision.mode].reattests && now > addSeconds(enrolledAt, reattest)
}
