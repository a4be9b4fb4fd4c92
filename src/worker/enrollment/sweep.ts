// Each minute: the runners that somebody cut off or wants drained are told, so many a run and no more.

import { type EpochSeconds, toEpochSeconds } from '../../protocol/time.ts'
import type { Runner } from '../fleet/enrollment-object.ts'
import {
  enrollmentsToCut,
  enrollmentsToDrain,
  loadBanList,
  markCut,
  markDrained,
  revokedEnrollments,
  unsweptBans,
} from '../store/bans.ts'
import { updateEnded } from '../store/enrollments.ts'
import type { Door } from './dependencies.ts'

/** A run of a Worker may make 1,000 calls; the database takes some. Whoever is left over comes first the next minute. */
const RUNNERS_A_RUN = 800
const BANS_A_RUN = 20
const AT_ONCE = 50

export async function tellRunners(door: Door): Promise<void> {
  const now = toEpochSeconds(door.clock())
  const left = RUNNERS_A_RUN - (await tellCutOff(door, now))
  if (left === 0) return
  const drained = await tell(door, await enrollmentsToDrain(door.database, left), (runner) => runner.drain())
  await markDrained(door.database, drained)
}

/** How many were called. */
async function tellCutOff(door: Door, now: EpochSeconds): Promise<number> {
  const { database } = door
  // Its own list, fresh: the one of the isolate may be from before the ban.
  const list = await loadBanList(database, now)
  const check = (runner: DurableObjectStub<Runner>) => runner.check(list)
  const revoked = await revokedEnrollments(database, now, RUNNERS_A_RUN)
  await updateEnded(database, await tell(door, revoked, check), 'token_revoked', now)
  let called = revoked.length
  for (const ban of await unsweptBans(database, BANS_A_RUN)) {
    const limit = RUNNERS_A_RUN - called
    if (limit === 0) break
    const ids = await enrollmentsToCut(database, ban, now, limit)
    const told = await tell(door, ids, check)
    await markCut(database, ban, told, ids.length < limit && told.length === ids.length, now)
    called += ids.length
  }
  return called
}

/** Calls the objects, some at once; the ids of those that answered. The others are told the next minute. */
async function tell(
  door: Door,
  ids: readonly string[],
  call: (runner: DurableObjectStub<Runner>) => Promise<unknown>,
): Promise<string[]> {
  const told: string[] = []
  for (let i = 0; i < ids.length; i += AT_ONCE) {
    const some = ids.slice(i, i + AT_ONCE)
    const outcomes = await Promise.allSettled(some.map((id) => call(door.runnerOf(id))))
    told.push(...some.filter((_, j) => outcomes[j]?.status === 'fulfilled'))
  }
  return told
}
