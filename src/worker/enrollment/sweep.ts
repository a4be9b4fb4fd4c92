// The cron jobs: each minute the objects of banned, revoked and draining runners are told, so many a run and no more;
// each hour old events go and key sets are refreshed.

import { type EpochSeconds, hours, subtractSeconds, toEpochSeconds } from '../../protocol/time.ts'
import type { EnrollmentObject } from '../fleet/enrollment-object.ts'
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
import { pruneEvents } from '../store/events.ts'
import type { Dependencies } from './dependencies.ts'

export const EVERY_HOUR = '0 * * * *'
const EVENTS_KEPT = hours(30 * 24)

/** Runs the job of one cron trigger of wrangler.toml. */
export async function runCron(deps: Dependencies, cron: string): Promise<void> {
  if (cron !== EVERY_HOUR) return tellRunners(deps)
  await pruneEvents(deps.database, subtractSeconds(toEpochSeconds(deps.clock()), EVENTS_KEPT))
  if (deps.trust.clusters.length > 0) await deps.refreshKeySets()
}

/** A run of a Worker may make 1,000 calls; the database takes some. Whoever is left over comes first the next minute. */
const RUNNERS_A_RUN = 800
const BANS_A_RUN = 20
const AT_ONCE = 50

async function tellRunners(deps: Dependencies): Promise<void> {
  const now = toEpochSeconds(deps.clock())
  const left = RUNNERS_A_RUN - (await tellCutOff(deps, now))
  if (left === 0) return
  const drained = await tell(deps, await enrollmentsToDrain(deps.database, left), (runner) => runner.drain())
  await markDrained(deps.database, drained)
}

/** How many were called. */
async function tellCutOff(deps: Dependencies, now: EpochSeconds): Promise<number> {
  const { database } = deps
  // Its own list, fresh: the one of the isolate may be from before the ban.
  const list = await loadBanList(database, now)
  const check = (runner: DurableObjectStub<EnrollmentObject>) => runner.check(list)
  const revoked = await revokedEnrollments(database, now, RUNNERS_A_RUN)
  await updateEnded(database, await tell(deps, revoked, check), 'token_revoked', now)
  let called = revoked.length
  for (const ban of await unsweptBans(database, BANS_A_RUN)) {
    const limit = RUNNERS_A_RUN - called
    if (limit === 0) break
    const ids = await enrollmentsToCut(database, ban, now, limit)
    const told = await tell(deps, ids, check)
    await markCut(database, ban, told, ids.length < limit && told.length === ids.length, now)
    called += ids.length
  }
  return called
}

/** Calls the objects, some at once; the ids of those that answered. The others are told the next minute. */
async function tell(
  deps: Dependencies,
  ids: readonly string[],
  call: (runner: DurableObjectStub<EnrollmentObject>) => Promise<unknown>,
): Promise<string[]> {
  const told: string[] = []
  for (let i = 0; i < ids.length; i += AT_ONCE) {
    const some = ids.slice(i, i + AT_ONCE)
    const outcomes = await Promise.allSettled(some.map((id) => call(deps.enrollmentObject(id))))
    told.push(...some.filter((_, j) => outcomes[j]?.status === 'fulfilled'))
  }
  return told
}
