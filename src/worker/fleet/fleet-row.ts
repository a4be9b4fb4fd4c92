// When the enrollment object updates its fleet row, and with what.

import type { Reason } from '../../protocol/reasons.ts'
import { addSeconds, type Clock, type EpochSeconds, epochSeconds, hours } from '../../protocol/time.ts'
import type { CompiledTrust } from '../../trust/compiled.ts'
import { type EnrollmentRecord, forgottenAfter } from './record.ts'

/** What the object needs of the rest of the Worker. */
export interface EnrollmentSources {
  readonly trust: CompiledTrust
  readonly clock: Clock
  /** Updates the fleet row of the enrollment; called at most once an hour. */
  readonly updateRow: (row: FleetRow) => Promise<void>
  /** Records the end of the enrollment; called once. */
  readonly recordEnd: (enrollmentId: string, reason: Reason, at: EpochSeconds) => Promise<void>
}

export interface FleetRow {
  readonly enrollmentId: string
  readonly seenAt: EpochSeconds
  readonly connected: boolean
  readonly instanceId: string | null
  /** End and issuer of the newest certificate. */
  readonly notAfter: EpochSeconds
  readonly issuer: string
}

/** Rows written are most of the cost of a fleet. */
const ROW_EVERY = hours(1)

export const isRowDue = ({ ended, rowWrittenAt }: EnrollmentRecord, now: EpochSeconds): boolean =>
  ended === null && (rowWrittenAt === null || addSeconds(rowWrittenAt, ROW_EVERY) <= now)

export function fleetRowOf(record: EnrollmentRecord, connected: boolean, seenAt: EpochSeconds): FleetRow {
  const { notAfter, issuer } = record.lineage.tip
  return { enrollmentId: record.enrollmentId, seenAt, connected, instanceId: record.instanceId, notAfter, issuer }
}

/** When the object clears itself: it updates the fleet row then, so not within an hour of the last update. */
export const clearedAfter = (record: EnrollmentRecord): EpochSeconds => {
  const { ended, rowWrittenAt } = record
  const forgotten = forgottenAfter(record)
  return ended !== null || rowWrittenAt === null
    ? forgotten
    : epochSeconds(Math.max(forgotten, addSeconds(rowWrittenAt, ROW_EVERY)))
}
