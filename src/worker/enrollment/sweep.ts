// The cron jobs: each minute, calls the objects of banned, revoked and draining runners; each hour, deletes old events
// and enrollments that ended long ago, and refreshes key sets.

import type { Reason } from '../../protocol/reasons.ts'
import { type EpochSeconds, hours, subtractSeconds, toEpochSeconds } from '../../protocol/time.ts'
import type { Ban, BanList } from '../../trust/bans.ts'
import type { EnrollmentObject } from '../fleet/enrollment-object.ts'
import {
  bansToCopy,
  enrollmentsToCut,
  enrollmentsToDrain,
  insertCopies,
  loadBanList,
  markCut,
  markDrained,
  markSwept,
  revokedEnrollments,
  unsweptBans,
} from '../store/bans.ts'
import type { WorkerDatabase } from '../store/d1.ts'
import { deleteDeadEnrollments } from '../store/dead-enrollments.ts'
import { updateEnded } from '../store/enrollments.ts'
import { pruneEvents } from '../store/events.ts'
import { logFailure } from '../telemetry/log.ts'
import type { Dependencies } from './dependencies.ts'
import { fairShares } from './fair-shares.ts'

export const EVERY_HOUR = '0 * * * *'
/** Events, and enrollments after their end. */
const KEPT = hours(30 * 24)
/** Each part takes D1 a fraction of a second. All are 200,000 enrollments an hour in a shard, 55 a second. */
const DEAD_ENROLLMENTS = { rows: 2000, parts: 100 }
/** Of all shards together, in one run. Each takes two calls. */
const PARTS_A_RUN = 400

/** Runs the job of one cron trigger of wrangler.toml. A shard that fails does not keep it from the others. */
export async function runCron(deps: Dependencies, cron: string): Promise<void> {
  const faults: unknown[] = []
  const attempt: Attempt = async (work) => {
    try {
      return await work()
    } catch (error) {
      logFailure('cron job failed', error)
      faults.push(error)
      return null
    }
  }
  await (cron === EVERY_HOUR ? cleanUp(deps, attempt) : sweepRunners(deps, attempt))
  if (faults.length > 0) throw faults[0]
}

/** Null where it failed. */
type Attempt = <T>(work: () => Promise<T>) => Promise<T | null>

async function cleanUp({ clock, trust, shards, refreshKeySets }: Dependencies, attempt: Attempt): Promise<void> {
  if (trust.clusters.length > 0) await attempt(refreshKeySets)
  const before = subtractSeconds(toEpochSeconds(clock()), KEPT)
  const { rows, parts } = DEAD_ENROLLMENTS
  const bounds = { rows, parts: Math.min(parts, Math.floor(PARTS_A_RUN / shards.all.length)) }
  for (const { database } of shards.all) {
    await attempt(async () => {
      await pruneEvents(database, before)
      await deleteDeadEnrollments(database, before, bounds)
    })
  }
}

/** A run of a Worker may make 1,000 calls, some of them to the database. The runners left over come first in the next run. */
const RUNNERS_A_RUN = 800
/** Of all shards together. Each takes three calls to the database at most. */
const BANS_A_RUN = 50
/** Calls to the database of each shard beside those. */
const CALLS_A_SHARD = 8
const AT_ONCE = 50

async function sweepRunners(deps: Dependencies, attempt: Attempt): Promise<void> {
  const { all } = deps.shards
  const now = toEpochSeconds(deps.clock())
  const room = RUNNERS_A_RUN - CALLS_A_SHARD * (all.length - 1)
  // Read anew: the isolate's list may be older than the ban.
  const lists = await Promise.all(all.map(({ database }) => attempt(() => loadBanList(database, now))))
  const bans = Math.floor(BANS_A_RUN / all.length)
  const cuts = all.map(async ({ database }, i) => {
    const list = lists[i]
    return (list && (await attempt(() => cutsOf(database, list, now, { runners: room, bans })))) ?? []
  })
  const left = room - (await checkCutOff(deps, (await Promise.all(cuts)).flat(), room, attempt))
  if (left > 0) await drainRunners(deps, left, attempt)
  await copyBans(all, lists, now, attempt)
}

/** Enrollments to check for one cause. */
interface Cut {
  readonly list: BanList
  readonly ids: readonly string[]
  /** Records what the enrollments that were checked have answered, by their id. */
  readonly record: (answers: ReadonlyMap<string, Reason | null>) => Promise<void>
}

/** What is to be checked in a shard. */
async function cutsOf(
  database: WorkerDatabase,
  list: BanList,
  now: EpochSeconds,
  { runners, bans }: { readonly runners: number; readonly bans: number },
): Promise<Cut[]> {
  const cuts: Cut[] = [
    {
      list,
      ids: await revokedEnrollments(database, now, runners),
      record: async (answers) => {
        for (const [reason, ids] of endsOf(answers)) await updateEnded(database, ids, reason, now)
      },
    },
  ]
  for (const ban of await unsweptBans(database, bans)) {
    const ids = await enrollmentsToCut(database, ban, now, runners)
    const record: Cut['record'] = async (answers) => {
      await markCut(database, [...answers.keys()], now)
      const isLast = answers.size === ids.length && ids.length < runners
      if (isLast) await markSwept(database, ban, now)
    }
    cuts.push({ list, ids, record })
  }
  return cuts
}

/** Has the objects of revoked and banned runners check their enrollments. Gives how many were called. */
async function checkCutOff(deps: Dependencies, cuts: readonly Cut[], room: number, attempt: Attempt): Promise<number> {
  const shares = fairShares(
    cuts.map(({ ids }) => ids.length),
    room,
  )
  let called = 0
  for (const [i, { list, ids, record }] of cuts.entries()) {
    const some = ids.slice(0, shares[i])
    const answers = await callObjects(
      deps,
      some,
      (id) => id,
      (runner) => runner.check(list),
    )
    await attempt(() => record(answers))
    called += some.length
  }
  return called
}

async function drainRunners(deps: Dependencies, room: number, attempt: Attempt): Promise<void> {
  const { all } = deps.shards
  const asked = await Promise.all(
    all.map(async ({ database }) => (await attempt(() => enrollmentsToDrain(database, room))) ?? []),
  )
  const shares = fairShares(
    asked.map((some) => some.length),
    room,
  )
  for (const [i, { database }] of all.entries()) {
    const some = asked[i]?.slice(0, shares[i]) ?? []
    const drained = await callObjects(
      deps,
      some,
      ({ enrollmentId }) => enrollmentId,
      (runner, named) => runner.drain(named),
    )
    await attempt(() => markDrained(database, [...drained.keys()]))
  }
}

/** Every ban is in all shards. One that is new gets those of shard 0, and so does one that `muster ban` did not reach. */
async function copyBans(
  [first, ...others]: Dependencies['shards']['all'],
  [source, ...lists]: readonly (BanList | null)[],
  now: EpochSeconds,
  attempt: Attempt,
): Promise<void> {
  for (const [i, { database }] of others.entries()) {
    const list = lists[i]
    if (!source || !list) continue
    const there = new Set(list.bans.map(nameOf))
    const lacks = (ban: Ban) => !there.has(nameOf(ban))
    if (!source.bans.some(lacks)) continue
    await attempt(async () => insertCopies(database, (await bansToCopy(first.database)).filter(lacks), now))
  }
}

const nameOf = ({ kind, value }: Ban): string => `${kind} ${value}`

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
async function callObjects<E, T>(
  deps: Dependencies,
  enrollments: readonly E[],
  idOf: (enrollment: E) => string,
  call: (runner: DurableObjectStub<EnrollmentObject>, enrollment: E) => Promise<T>,
): Promise<Map<string, T>> {
  const answers = new Map<string, T>()
  for (let i = 0; i < enrollments.length; i += AT_ONCE) {
    const calls = enrollments.slice(i, i + AT_ONCE).map(async (enrollment) => {
      const id = idOf(enrollment)
      answers.set(id, await call(deps.enrollmentObject(id), enrollment))
    })
    await Promise.allSettled(calls)
  }
  return answers
}
