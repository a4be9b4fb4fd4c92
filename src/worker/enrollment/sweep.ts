// The cron jobs: each minute, calls the objects of banned, revoked and draining runners; each hour, deletes old events
// and enrollments that ended long ago, and refreshes key sets.

import type { Reason } from '../../protocol/reasons.ts'
import { type EpochSeconds, hours, seconds, subtractSeconds, toEpochSeconds } from '../../protocol/time.ts'
import type { Ban, BanList } from '../../trust/bans.ts'
import type { EnrollmentObject } from '../fleet/enrollment-object.ts'
import { inTime } from '../store/ban-cache.ts'
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
  type SweptBan,
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
  // At once: one that does not answer must not keep the job from the others.
  await Promise.all(
    shards.all.map(({ database }) =>
      attempt(async () => {
        await pruneEvents(database, before)
        await deleteDeadEnrollments(database, before, bounds)
      }),
    ),
  )
}

/** A run of a Worker may make so many calls, to objects and databases. */
const CALLS_A_RUN = 1000
/** The runners left over come first in the next run. */
const RUNNERS_A_RUN = 800
/** Of each shard. Each takes a call to the database. */
const BANS_A_RUN = 50
/** Of all shards together. Each ban is in all of them. */
const BAN_CALLS_A_RUN = 400
/** Calls to the database of each shard beside those. */
const CALLS_A_SHARD = 12
const AT_ONCE = 50

async function sweepRunners(deps: Dependencies, attempt: Attempt): Promise<void> {
  const { all } = deps.shards
  const now = toEpochSeconds(deps.clock())
  const most = Math.min(BANS_A_RUN, Math.floor(BAN_CALLS_A_RUN / all.length))
  const asked = await Promise.all(all.map(({ database }) => attempt(() => askShard(database, now, most))))
  const sweeps = asked.filter((one) => one !== null)
  const banCalls = sweeps.reduce((sum, { bans }) => sum + bans.length, 0)
  const room = Math.min(RUNNERS_A_RUN, CALLS_A_RUN - CALLS_A_SHARD * all.length - banCalls)
  const cuts = await Promise.all(sweeps.map((sweep) => attempt(() => cutsOf(sweep, now, room))))
  const called = await checkCutOff(
    deps,
    cuts.filter((some) => some !== null),
    room,
    attempt,
  )
  if (called < room) await drainRunners(deps, sweeps, room - called, attempt)
  await copyBans(all[0].database, sweeps, now, attempt)
}

/** A shard that answers, in this run. */
interface ShardSweep {
  readonly database: WorkerDatabase
  readonly list: BanList
  /** Those whose enrollments have not all been checked. */
  readonly bans: readonly SweptBan[]
}

/** How long the other shards wait for one that is silent. A slow one answers. */
const PATIENCE = seconds(10)

/** The list is read anew: that of the isolate may be older than the ban. */
async function askShard(database: WorkerDatabase, now: EpochSeconds, most: number): Promise<ShardSweep> {
  const [list, bans] = await inTime(Promise.all([loadBanList(database, now), unsweptBans(database, most)]), PATIENCE)
  return { database, list, bans }
}

/** What is to be checked in a shard. */
interface ShardCuts {
  readonly list: BanList
  /** Enrollments to check, for one cause each. */
  readonly causes: readonly (readonly string[])[]
  /** Records what the enrollments that were checked have answered, by their id, for each cause. */
  readonly record: (answers: readonly ReadonlyMap<string, Reason | null>[]) => Promise<void>
}

async function cutsOf({ database, list, bans }: ShardSweep, now: EpochSeconds, runners: number): Promise<ShardCuts> {
  const revoked = await revokedEnrollments(database, now, runners)
  const named: string[][] = []
  for (const ban of bans) named.push(await enrollmentsToCut(database, ban, now, runners))
  return {
    list,
    causes: [revoked, ...named],
    record: async ([ofRevoked, ...ofBans]) => {
      for (const [reason, ids] of endsOf(ofRevoked ?? new Map())) await updateEnded(database, ids, reason, now)
      const checked = ofBans.flatMap((answers) => [...answers.keys()])
      await markCut(database, checked, now)
      // None is left of those that the ban names.
      const isLast = (ids: readonly string[], i: number) => ofBans[i]?.size === ids.length && ids.length < runners
      const last = bans.filter((_, i) => isLast(named[i] ?? [], i))
      await markSwept(database, last, now)
    },
  }
}

/** Has the objects of revoked and banned runners check their enrollments. Gives how many were called. */
async function checkCutOff(
  deps: Dependencies,
  shards: readonly ShardCuts[],
  room: number,
  attempt: Attempt,
): Promise<number> {
  const shares = fairShares(
    shards.flatMap(({ causes }) => causes.map((ids) => ids.length)),
    room,
  )
  let cause = 0
  for (const { list, causes, record } of shards) {
    const answers: Map<string, Reason | null>[] = []
    for (const ids of causes) {
      const some = ids.slice(0, shares[cause++])
      answers.push(
        await callObjects(
          deps,
          some,
          (id) => id,
          (runner) => runner.check(list),
        ),
      )
    }
    await attempt(() => record(answers))
  }
  return shares.reduce((sum, share) => sum + share, 0)
}

async function drainRunners(
  deps: Dependencies,
  sweeps: readonly ShardSweep[],
  room: number,
  attempt: Attempt,
): Promise<void> {
  const asked = await Promise.all(
    sweeps.map(async ({ database }) => (await attempt(() => enrollmentsToDrain(database, room))) ?? []),
  )
  const shares = fairShares(
    asked.map((some) => some.length),
    room,
  )
  for (const [i, { database }] of sweeps.entries()) {
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
  first: WorkerDatabase,
  sweeps: readonly ShardSweep[],
  now: EpochSeconds,
  attempt: Attempt,
): Promise<void> {
  const source = sweeps.find(({ database }) => database === first)
  if (source === undefined) return
  for (const { database, list } of sweeps) {
    const there = new Set(list.bans.map(nameOf))
    const lacks = (ban: Ban) => !there.has(nameOf(ban))
    if (!source.list.bans.some(lacks)) continue
    await attempt(async () => insertCopies(database, (await bansToCopy(first)).filter(lacks), now))
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
