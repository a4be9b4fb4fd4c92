// When the enrollment object updates its fleet row, and with what.

import type { Reason } from '../../protocol/reasons.ts'
import { addSeconds, type Clock, type EpochSeconds, epochSeconds, hours } from '../../protocol/time.ts'
import type { CompiledTrust } from '../../trust/compiled.ts'
import type { RecordedEnrollment } from './begin.ts'
import type { NamedEnrollment } from './calls.ts'
import { type EnrollmentRecord, forgottenAfter } from './record.ts'

/** What the object needs of the rest of the Worker. */
export interface EnrollmentSources {
  readonly trust: CompiledTrust
  readonly clock: Clock
  /** Marks the enrollment as begun in D1, and gives it as it was recorded; null where it is not on record. */
  readonly begin: (named: NamedEnrollment, now: EpochSeconds) => Promise<RecordedEnrollment | null>
  /** Updates the fleet row of the enrollment. Called at most once an hour, unless the last call failed. */
  readonly updateRow: (tenant: string, row: FleetRow) => Promise<void>
  /** Records the end of the enrollment; called once. */
  readonly recordEnd: (named: NamedEnrollment, reason: Reason, at: EpochSeconds) => Promise<void>
}

export interface FleetRow {
  readonly enrollmentId: string
  readonly seenAt: EpochSeconds
  readonly connected: boolean
  readonly instanceId: string | null
  readonly agent: string | null
  /** End of the newest certificate, or of the origin where that ends later. */
  readonly liveUntil: EpochSeconds
  /** Of the newest certificate. */
  readonly issuer: string
}

/** Rows written are most of the cost of a fleet. `mayLive` in store/enrollments.ts relies on this span. */
const ROW_EVERY = hours(1)

/** Once an hour, and as soon as the newest certificate ends over an hour later than the row says. */
export function isRowDue(record: EnrollmentRecord, now: EpochSeconds): boolean {
  const { ended, row } = record
  if (ended !== null) return false
  if (row === null) return true
  return addSeconds(row.writtenAt, ROW_EVERY) <= now || liveUntil(record) > addSeconds(row.liveUntil, ROW_EVERY)
}

const liveUntil = ({ lineage: { tip, origin } }: EnrollmentRecord): EpochSeconds =>
  epochSeconds(Math.max(tip.notAfter, origin?.notAfter ?? 0))

export function fleetRowOf(record: EnrollmentRecord, connected: boolean, seenAt: EpochSeconds): FleetRow {
  const { enrollmentId, instanceId, agent, lineage } = record
  const { issuer } = lineage.tip
  return { enrollmentId, seenAt, connected, instanceId, agent, liveUntil: liveUntil(record), issuer }
}

/** What the object says of itself. */
export interface EnrollmentStatus extends Pick<FleetRow, 'connected' | 'instanceId' | 'agent'> {
  /** Of the newest certificate. */
  readonly serial: string
  readonly notAfter: EpochSeconds
  readonly ended: Reason | null
}

export function statusOf(
  { instanceId, agent, lineage, ended }: EnrollmentRecord,
  connected: boolean,
): EnrollmentStatus {
  const { serial, notAfter } = lineage.tip
  return { connected, instanceId, agent, serial, notAfter, ended: ended?.reason ?? null }
}

/** When the object clears itself. It updates the fleet row then, so this is at least an hour after the last update. */
export const clearedAfter = (record: EnrollmentRecord): EpochSeconds => {
  const { ended, row } = record
  const forgotten = forgottenAfter(record)
  return ended !== null || row === null
    ? forgotten
    : epochSeconds(Math.max(forgotten, addSeconds(row.writtenAt, ROW_EVERY)))
}
