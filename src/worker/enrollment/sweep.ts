// The cron jobs: each minute, calls the objects of banned, revoked and draining runners; each hour, deletes old events
// and enrollments that ended long ago, and refreshes key sets.

import type { Reason } from '../../protocol/reasons.ts'
import { type EpochSeconds, hours, subtractSeconds, toEpochSeconds } from '../../protocol/time.ts'
import type { EnrollmentObject } from '../fleet/enrollment-object.ts'
import {
  enrollmentsToCut,
  enrollmentsToDrain,
  loadBanList,
  markCut,
  markDrained,
  markSwept,
  revokedEnrollments,
  unsweptBans,
} from '../store/bans.ts'
import { deleteDeadEnrollments } from '../store/dead-enrollments.ts'
import { updateEnded } from '../store/enrollments.ts'
import { pruneEvents } from '../store/events.ts'
import type { Dependencies } from './dependencies.ts'
import { fairShares } from './fair-shares.ts'

export const EVERY_HOUR = '0 * * * *'
/** Events, and enrollments after their end. */
const KEPT = hours(30 * 24)
/** Each part takes D1 a fraction of a second. All are 200,000 enrollments an hour, 55 a second. */
const DEAD_ENROLLMENTS = { rows: 2000, parts: 100 }

/** Runs the job of one cron trigger of wrangler.toml. */
export async function runCron(deps: Dependencies, cron: string): Promise<void> {
  if (cron !== EVERY_HOUR) return sweepRunners(deps)
  if (deps.trust.clusters.length > 0) await deps.refreshKeySets()
  const before = subtractSeconds(toEpochSeconds(deps.clock()), KEPT)
  await pruneEvents(deps.database, before)
  await deleteDeadEnrollments(deps.database, before, DEAD_ENROLLMENTS)
}

/** A run of a Worker may make 1,000 calls, some of them to the database. The runners left over come first in the next run. */
const RUNNERS_A_RUN = 800
/** Each takes three calls to the database at most. */
const BANS_A_RUN = 50
const AT_ONCE = 50

async function sweepRunners(deps: Dependencies): Promise<void> {
  const now = toEpochSeconds(deps.clock())
  const left = RUNNERS_A_RUN - (await checkCutOff(deps, now))
  if (left === 0) return
  const drained = await callObjects(deps, await enrollmentsToDrain(deps.database, left), (runner, id) =>
    runner.drain(id),
  )
  await markDrained(deps.database, [...drained.keys()])
}

/** Enrollments to check for one cause. */
interface Cut {
  readonly ids: readonly string[]
  /** Records what the enrollments that were checked have answered, by their id. */
  readonly record: (answers: ReadonlyMap<string, Reason | null>) => Promise<void>
}

/** Has the objects of revoked and banned runners check their enrollments. Gives how many were called. */
async function checkCutOff(deps: Dependencies, now: EpochSeconds): Promise<number> {
  const { database } = deps
  // Read anew: the isolate's list may be older than the ban.
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
    const record: Cut['record'] = async (answers) => {
      await markCut(database, [...answers.keys()], now)
      const isLast = answers.size === ids.length && ids.length < RUNNERS_A_RUN
      if (isLast) await markSwept(database, ban, now)
    }
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
    await record(answers)
    called += some.length
  }
  return called
}

/**
 * The enrollments of revoked tokens that have ended, as their objects say, by the reason. An enrollment without a record
 * never began, and cannot begin any more.
 */
function endsOf(answers: ReadonlyMap<string, Reason | null>): Map<Reason, string[]> {
  const ends = new Map<Reason, string[]>()
  for (const [id, answer] of answers) {
    const reason = answer === 'lineage_missing' ? 'token_revoked' : answer
    // The token was revoked after the list was read: the next run ends the enrollment.
    if (reason !== null) ends.set(reason, [...(ends.get(reason) ?? []), id])
  }
  return ends
}

/** Calls the objects, `AT_ONCE` at a time. Gives the answers by id; an object that fails is called in the next run. */
async function callObjects<T>(
  deps: Dependencies,
  ids: readonly string[],
  call: (runner: DurableObjectStub<EnrollmentObject>, id: string) => Promise<T>,
): Promise<Map<string, T>> {
  const answers = new Map<string, T>()
  for (let i = 0; i < ids.length; i += AT_ONCE) {
    const some = ids.slice(i, i + AT_ONCE)
    const outcomes = await Promise.allSettled(some.map((id) => call(deps.enrollmentObject(id), id)))
    for (const [j, outcome] of outcomes.entries()) {
      const id = some[j]
      if (id !== undefined && outcome.status === 'fulfilled') answers.set(id, outcome.value)
    }
  }
  return answers
}
