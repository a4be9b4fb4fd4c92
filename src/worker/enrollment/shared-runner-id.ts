// Two enrollments of one runner ID are said, never cut: a thief could cut the owner.

import { type EpochSeconds, toEpochSeconds } from '../../protocol/time.ts'
import { sharersOf } from '../store/enrollments.ts'
import type { Door } from './dependencies.ts'
import { type Caller, type Facts, recordGrant } from './event.ts'

/** As many are asked whether their certificate lives; a runner that restarted often leaves some that does not. */
const ASKED = 5

/** Records an enrollment, after the answer, and with it that another one of its runner ID has a live certificate. */
export async function recordEnrolled(door: Door, caller: Caller, facts: Facts): Promise<void> {
  const shared = await isShared(door, facts, toEpochSeconds(caller.at)).catch(() => false)
  recordGrant(door.database, caller, 'enrolled', facts, shared ? 'runner_id_shared' : null)
}

async function isShared(door: Door, { runnerId, enrollmentId }: Facts, now: EpochSeconds): Promise<boolean> {
  if (!runnerId || !enrollmentId) return false
  const others = await sharersOf(door.database, runnerId, enrollmentId, now, ASKED)
  const states = await Promise.all(others.map((id) => door.runnerOf(id).status()))
  return states.some((state) => state !== null && state.ended === null && state.notAfter >= now)
}
