// The cron jobs: each minute, calls the objects of banned, revoked and draining runners; each hour, deletes old events
// and refreshes key sets.

import type { Reason } from '../../protocol/reasons.ts'
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
import { fairShares } from './fair-shares.ts'

export const EVERY_HOUR = '0 * * * *'
const EVENTS_KEPT = hours(30 * 24)

/** Runs the job of one cron trigger of wrangler.toml. */
export async function runCron(deps: Dependencies, cron: string): Promise<void> {
  if (cron !== EVERY_HOUR) return sweepRunners(deps)
  await pruneEvents(deps.database, subtractSeconds(toEpochSeconds(deps.clock()), EVENTS_KEPT))
  if (deps.trust.clusters.length > 0) await deps.refreshKeySets()
}

/** A run of a Worker may make 1,000 calls, and the database takes some. The runners left over come first in the next run. */
const RUNNERS_A_RUN = 800
const BANS_A_RUN = 20
const AT_ONCE = 50

async function sweepRunners(deps: Dependencies): Promise<void> {
  const now = toEpochSeconds(deps.clock())
  const left = RUNNERS_A_RUN - (await checkCutOff(deps, now))
  if (left === 0) return
  const drained = await callObjects(deps, await enrollmentsToDrain(deps.database, left), (runner) => runner.drain())
  await markDrained(deps.database, [...drained.keys()])
}

/** Enrollments to check for one cause. */
interface Cut {
  readonly ids: readonly string[]
  /** Records the answers of those that were checked. `all`: none is left. */
  readonly record: (answers: ReadonlyMap<string, Reason | null>, all: boolean) => Promise<void>
}

/** Has the objects of revoked and banned runners check their enrollments; how many were called. */
async function checkCutOff(deps: Dependencies, now: EpochSeconds): Promise<number> {
  const { database } = deps
  // Read now: the isolate's list may be from before the ban.
  const list = await loadBanList(database, now)
  const cuts: Cut[] = [
    {
      ids: await revokedEnrollments(database, now, RUNNERS_A_RUN),
      record: async (answers) => {
        for (const [reason, ids] of endsOf(answers)) await updateEnded(database, ids, reason, now)
      },
    },
  ]
  for (const ban of await unsweptBans(database, BANS_A_RUN)) {
    const ids = await enrollmentsToCut(database, ban, now, RUNNERS_A_RUN)
    const record: Cut['record'] = (answers, all) =>
      markCut(database, ban, [...answers.keys()], all && ids.length < RUNNERS_A_RUN, now)
    cuts.push({ ids, record })
  }
  const shares = fairShares(
    cuts.map(({ ids }) => ids.length),
    RUNNERS_A_RUN,
  )
  let called = 0
  for (const [i, { ids, record }] of cuts.entries()) {
    const some = ids.slice(0, shares[i])
    const answers = await callObjects(deps, some, (runner) => runner.check(list))
    await record(answers, answers.size === ids.length)
    called += some.length
  }
  return called
}

/**
 * The enrollments of a revoked token that have ended by the word of their objects, by the reason why. One without a
 * record never began, and cannot any more.
 */
function endsOf(answers: ReadonlyMap<string, Reason | null>): Map<Reason, string[]> {
  const ends = new Map<Reason, string[]>()
  for (const [id, answer] of answers) {
    const reason = answer === 'lineage_missing' ? 'token_revoked' : answer
    // Null where the token was revoked after the list was read: the next run ends it.
    if (reason !== null) ends.set(reason, [...(ends.get(reason) ?? []), id])
  }
  return ends
}

/** Calls the objects, `AT_ONCE` at a time; the answers of those that gave one. The others are called in the next run. */
async function callObjects<T>(
  deps: Dependencies,
  ids: readonly string[],
  call: (runner: DurableObjectStub<EnrollmentObject>) => Promise<T>,
): Promise<Map<string, T>> {
  const answers = new Map<string, T>()
  for (let i = 0; i < ids.length; i += AT_ONCE) {
    const some = ids.slice(i, i + AT_ONCE)
    const outcomes = await Promise.allSettled(some.map((id) => call(deps.enrollmentObject(id))))
    for (const [j, outcome] of outcomes.entries()) {
      const id = some[j]
      if (id !== undefined && outcome.status === 'fulfilled') answers.set(id, outcome.value)
    }
  }
  return answers
}
