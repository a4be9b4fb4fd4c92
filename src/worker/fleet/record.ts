// The record that an enrollment object keeps: how it starts, what it says, and how a hello changes it. Pure.

import type { Leaf, LeafContent } from '../../protocol/leaf.ts'
import { mayStartLineage } from '../../protocol/modes.ts'
import type { Reason } from '../../protocol/reasons.ts'
import { addSeconds, type EpochSeconds, epochSeconds } from '../../protocol/time.ts'
import type { BanList } from '../../trust/bans.ts'
import type { CompiledTrust } from '../../trust/compiled.ts'
import { type Decision, decide, tokenIdOf } from '../../trust/decide.ts'
import type { Claims } from '../../trust/modes/registry.ts'
import { type Lineage, type SignedLeaf, startAnew, startLineage } from './lineage.ts'
import type { UsedChallenge } from './used-challenges.ts'
import { REPLAY_MEMORY_MARGIN, renewableUntil } from './windows.ts'

/** The enrollment as it begins. */
export interface EnrollmentStart {
  readonly enrollmentId: string
  readonly claims: Claims
  /** Tenant, mode and source are in every certificate of the enrollment. */
  readonly decision: Decision
  readonly instanceId: string | null
  readonly enrolledAt: EpochSeconds
  /** The signed one where it is known. */
  readonly certificate: SignedLeaf | LeafContent
}

export interface EnrollmentRecord extends Omit<EnrollmentStart, 'certificate'> {
  readonly lineage: Lineage
  /** What the runner says it is; null until it says hello. */
  readonly agent: string | null
  /** The latest `notAfter` of any certificate of the enrollment: the lineage is needed until then. */
  readonly lastEnd: EpochSeconds
  readonly ended: { readonly reason: Reason; readonly at: EpochSeconds } | null
  readonly spent: readonly UsedChallenge[]
  /** The fleet row as last written; null: never written, or the last write failed. */
  readonly row: { readonly writtenAt: EpochSeconds; readonly liveUntil: EpochSeconds } | null
  /** A drain that has not been sent yet. */
  readonly drain: boolean
}

/** A certificate that was verified: that this CA issued it, and that the caller holds its key. */
export type PresentedLeaf = Leaf & SignedLeaf

/** The record of an enrollment that has one certificate. */
export function startRecord({ certificate, ...start }: EnrollmentStart): EnrollmentRecord {
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

/** The decision by today's trust file, which may attest no runner ID any more; the old one where it decides none. */
export function decisionToday({ claims, decision }: EnrollmentRecord, trust: CompiledTrust): Decision {
  const today = decide(trust, claims)
  return today.ok ? today.value : decision
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

/** The record after a change of its lineage. */
export const withLineage = (record: EnrollmentRecord, lineage: Lineage): EnrollmentRecord => ({
  ...record,
  lineage,
  lastEnd: epochSeconds(Math.max(record.lastEnd, lineage.tip.notAfter)),
})

/** Whether the token that the enrollment was made with was revoked, which ends the enrollment for good. */
export function isRevoked({ decision }: EnrollmentRecord, { revokedTokens }: BanList): boolean {
  const tokenId = tokenIdOf(decision)
  return tokenId !== null && revokedTokens.includes(tokenId)
}
