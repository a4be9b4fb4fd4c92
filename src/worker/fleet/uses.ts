// Decides each use of an enrollment: a repeated enrollment, a renewal or a connection. The result says how the record changes. Pure.

import { type Leaf, leafContentOf } from '../../protocol/leaf.ts'
import { MODES } from '../../protocol/modes.ts'
import { type Outcome, refuse } from '../../protocol/refusals.ts'
import { ok } from '../../protocol/result.ts'
import { addSeconds, type EpochSeconds } from '../../protocol/time.ts'
import type { BanList } from '../../trust/bans.ts'
import type { CompiledTrust } from '../../trust/compiled.ts'
import { reauthorize } from '../../trust/reauthorize.ts'
import { connectionVerdict, type Lineage, renewalVerdict, repeatedEnrollment, type SignedLeaf } from './lineage.ts'
import { type EnrollmentRecord, withLineage } from './record.ts'
import { type Challenge, useChallenge } from './used-challenges.ts'
import { renewableUntil } from './windows.ts'

/** What a use is judged by. */
export interface Conditions {
  readonly trust: CompiledTrust
  readonly bans: BanList
  readonly now: EpochSeconds
}

/** A use, granted or refused. */
export interface Use<T> {
  /** The changed record, to be stored before the answer. Null: unchanged. */
  readonly record: EnrollmentRecord | null
  readonly result: Outcome<T>
}

/**
 * An enrollment that is asked for again, with its key: it gets the certificate that it has, or a newer one once half of
 * that one's life has passed, unless the enrollment has renewed or was cut off meanwhile.
 */
export function repeatUse(record: EnrollmentRecord, candidate: SignedLeaf, conditions: Conditions): Use<SignedLeaf> {
  const { trust, bans, now } = conditions
  const repeated = repeatedEnrollment(record.lineage, candidate, now)
  if (repeated === null) return { record: null, result: refuse('token_retry_over') }
  const authorized = reauthorize(trust, bans, { ...record, tenant: record.decision.tenant })
  if (!authorized.ok) return { record: null, result: authorized }
  const changed = repeated.verdict === 'grant' ? withLineage(record, repeated.next) : null
  return { record: changed, result: ok(signedTip((changed ?? record).lineage)) }
}

export interface Renewal {
  readonly certificate: SignedLeaf
  /** It was given out before. */
  readonly again: boolean
  /** The lineage started anew: the tunnels of the former lineage are closed. */
  readonly retires: boolean
}

/** A renewal with `presented`. `candidate`: a new certificate, which leaves only if it is granted and on record. */
export function renewalUse(
  record: EnrollmentRecord,
  presented: Leaf,
  candidate: SignedLeaf,
  { trust, bans, now }: Conditions,
): Use<Renewal> {
  // Checked by this object's clock, because by the same clock it drops what it remembers of a certificate.
  if (now > renewableUntil(presented)) return { record: null, result: refuse('renewal_window') }
  const authorized = reauthorize(trust, bans, { ...record, tenant: presented.tenant })
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

/** `late`: the parent connected just after the tip's first use, and is closed. `anew`: see `ConnectionVerdict`. */
export type Connection = 'open' | 'late' | 'anew'

/** A connection with `presented`. `challenge`: what its key signed; null where TLS proved the key. */
export function connectionUse(
  stored: EnrollmentRecord,
  presented: Leaf,
  challenge: Challenge | null,
  { trust, bans, now }: Conditions,
): Use<Connection> {
  const { serial } = presented
  const spent = challenge === null ? ok(stored.spent) : useChallenge(stored.spent, { ...challenge, serial }, now)
  if (!spent.ok) return { record: null, result: spent }
  // The challenge counts as used even where the connection is refused.
  const record = challenge === null ? stored : { ...stored, spent: spent.value }
  const changed = challenge === null ? null : record
  if (now > presented.notAfter) return { record: changed, result: refuse('certificate_expired') }
  const authorized = reauthorize(trust, bans, { ...record, tenant: presented.tenant })
  if (!authorized.ok) return { record: changed, result: authorized }
  const verdict = connectionVerdict(record.lineage, presented, now)
  switch (verdict.verdict) {
    case 'clone':
      return { record: endedByClone(record, trust, now) ?? changed, result: refuse('clone_suspected') }
    case 'late':
    case 'anew':
      return { record: changed, result: ok(verdict.verdict) }
    case 'accept':
      return { record: { ...record, lineage: verdict.next }, result: ok('open') }
  }
}

function signedTip({ tip }: Lineage): SignedLeaf {
  if (tip.der === null) throw new Error('a certificate was granted that was not signed here')
  return { ...leafContentOf(tip), der: tip.der }
}

/** The record after a use outside the lineage; null where the trust file says `onClone: refuse`, so that it goes on. */
const endedByClone = (record: EnrollmentRecord, trust: CompiledTrust, now: EpochSeconds): EnrollmentRecord | null =>
  trust.certificate.onClone === 'end' ? { ...record, ended: { reason: 'clone_suspected', at: now } } : null

/** Evidence of a platform must be renewed after `reattest`; what an operator issued is good until it is revoked. */
function mustReattest({ decision, enrolledAt }: EnrollmentRecord, trust: CompiledTrust, now: EpochSeconds): boolean {
  const { reattest } = trust.certificate
  return reattest !== null && MODES[decision.mode].reattests && now > addSeconds(enrolledAt, reattest)
}
