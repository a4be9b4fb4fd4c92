// What the rest of the Worker gives the object of an enrollment, and what that tells the fleet in return, when.

import type { Reason } from '../../protocol/reasons.ts'
import { addSeconds, type Clock, type EpochSeconds, epochSeconds, hours } from '../../protocol/time.ts'
import type { CompiledTrust } from '../../trust/compiled.ts'
import { type EnrollmentRecord, forgottenAfter } from './record.ts'

export interface RunnerSources {
  readonly trust: CompiledTrust
  readonly clock: Clock
  /** Rewrites the fleet's row of the enrollment; called at most once an hour. */
  readonly show: (presence: Presence) => Promise<void>
  /** Writes down that the enrollment has ended; called once. */
  readonly showEnd: (enrollmentId: string, reason: Reason, at: EpochSeconds) => Promise<void>
}

export interface Presence {
  readonly enrollmentId: string
  readonly seenAt: EpochSeconds
  readonly connected: boolean
  readonly instanceId: string | null
  /** End and issuer of the newest certificate. */
  readonly notAfter: EpochSeconds
  readonly issuer: string
}

/** Rows written are most of what a fleet costs. */
const SHOWN_EVERY = hours(1)

export const isToBeShown = ({ ended, shownAt }: EnrollmentRecord, now: EpochSeconds): boolean =>
  ended === null && (shownAt === null || addSeconds(shownAt, SHOWN_EVERY) <= now)

export function presenceOf(record: EnrollmentRecord, connected: boolean, seenAt: EpochSeconds): Presence {
  const { notAfter, issuer } = record.lineage.tip
  return { enrollmentId: record.enrollmentId, seenAt, connected, instanceId: record.instanceId, notAfter, issuer }
}

/**
 * After that the object clears itself. The fleet's last row is written then, and that too keeps to once an hour; of an
 * end it was told already.
 */
export const clearedAfter = (record: EnrollmentRecord): EpochSeconds => {
  const { ended, shownAt } = record
  const forgotten = forgottenAfter(record)
  return ended !== null || shownAt === null
    ? forgotten
    : epochSeconds(Math.max(forgotten, addSeconds(shownAt, SHOWN_EVERY)))
}
