// How the record of an enrollment begins: at its first renewal or connection, with what D1 recorded. Pure.

import { type RecordedContent, recordedContent } from '../../protocol/leaf.ts'
import type { ProvenMode } from '../../protocol/modes.ts'
import { type Outcome, refuse } from '../../protocol/refusals.ts'
import { ok } from '../../protocol/result.ts'
import type { EpochSeconds } from '../../protocol/time.ts'
import type { CompiledTrust } from '../../trust/compiled.ts'
import { decide } from '../../trust/decide.ts'
import type { Claims } from '../../trust/modes/registry.ts'
import { type EnrollmentRecord, type PresentedLeaf, startRecord } from './record.ts'

/** An enrollment with its first certificate, as D1 has it. */
export interface RecordedEnrollment extends RecordedContent {
  readonly enrollmentId: string
  readonly mode: ProvenMode
  readonly source: string
  readonly tenant: string
  readonly identity: string
  readonly runnerId: string | null
  readonly claims: Claims
  readonly instanceId: string | null
  readonly enrolledAt: EpochSeconds
  readonly ended: boolean
  /** Whether its token was revoked. */
  readonly revoked: boolean
}

/** `presented`: the certificate that begins it, which must be the first; null where an operator or a retry does. */
export function recordFromD1(
  recorded: RecordedEnrollment | null,
  presented: PresentedLeaf | null,
): Outcome<EnrollmentRecord> {
  if (recorded === null) return refuse('lineage_missing')
  const { enrollmentId, mode, source, tenant, identity, runnerId, claims, instanceId, enrolledAt } = recorded
  if (recorded.ended) return refuse('enrollment_ended')
  if (recorded.revoked) return refuse('token_revoked')
  const { serial, publicKeyHash } = recorded
  const first = recordedContent(recorded, tenant)
  // An object forgets nothing while a certificate of its enrollment may be used. So one that knows nothing never began.
  const isFirst = presented === null || (presented.serial === serial && presented.publicKeyHash === publicKeyHash)
  if (!isFirst) return refuse('lineage_missing')
  const decision = { tenant, runnerId, mode, source, identity }
  const certificate = presented === null ? first : { ...first, der: presented.der }
  return ok(startRecord({ enrollmentId, claims, decision, instanceId, enrolledAt, certificate }))
}

/** The record that a provisioned certificate starts: D1 need not be asked. */
export function recordOfProvisioned(trust: CompiledTrust, presented: PresentedLeaf): Outcome<EnrollmentRecord> {
  const { enrollmentId, tenant, notBefore: enrolledAt, der: _, ...certificate } = presented
  const claims: Claims = { mode: 'provisioned', tenant }
  const decision = decide(trust, claims)
  if (!decision.ok) return refuse('standing_lost')
  return ok(
    startRecord({
      enrollmentId,
      claims,
      decision: decision.value,
      instanceId: null,
      enrolledAt,
      certificate: { ...certificate, notBefore: enrolledAt },
    }),
  )
}
