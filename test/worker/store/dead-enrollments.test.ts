// Tests which enrollments and tokens are deleted, and that a run looks at so many rows and no more.
import { env } from 'cloudflare:test'
import { beforeEach, expect, test } from 'vitest'
import {
  addSeconds,
  epochSeconds,
  hours,
  minutes,
  type Seconds,
  seconds,
  subtractSeconds,
} from '../../../src/protocol/time.ts'
import { deleteDeadEnrollments } from '../../../src/worker/store/dead-enrollments.ts'
import { findEnrollment, ROW_LAG } from '../../../src/worker/store/enrollments.ts'
import { insertToken, token } from '../../../src/worker/store/tokens.ts'
import { recordEnrollment } from './enrollment-rows.ts'
import { openDatabase } from './open-database.ts'

const db = openDatabase(env.DB)
const BEFORE = epochSeconds(1_800_000_000)
const ALL = { rows: 100, parts: 10 }

beforeEach(async () => {
  await env.DB.batch(['enrollment', 'token', 'cursor'].map((table) => env.DB.prepare(`DELETE FROM ${table}`)))
})

const run = (bounds = ALL) => deleteDeadEnrollments(db, BEFORE, bounds)
/** Enrolled a day before; its row says that it ends so long before `BEFORE`. */
const ending = (ago: Seconds) =>
  recordEnrollment(subtractSeconds(BEFORE, hours(24)), { liveUntil: subtractSeconds(BEFORE, ago) })
const isThere = async (id: string) => (await findEnrollment(db, id)) !== null

test('an enrollment is deleted once it cannot have been live, and not a second before', async () => {
  const dead = await ending(seconds(ROW_LAG + 1))
  const maybe = await ending(ROW_LAG)
  const live = await ending(seconds(-900))
  const young = await recordEnrollment(addSeconds(BEFORE, seconds(1)))
  expect(await run()).toBe(1)
  expect(await Promise.all([dead, maybe, live, young].map(isThere))).toEqual([false, true, true, true])
})

test('a bootstrap token goes with the enrollment that used it, a runner token stays', async () => {
  const tokenOf = async (kind: 'bootstrap' | 'runner', name: string) => {
    const changes = { hash: name, id: name, kind, tenant: 'acme', createdAt: BEFORE, expiresAt: null }
    await insertToken(db, { ...changes, runnerId: kind === 'runner' ? name : null, note: null })
    return name
  }
  const old = subtractSeconds(BEFORE, hours(48))
  await recordEnrollment(old, { tokenId: await tokenOf('bootstrap', 'used') })
  await recordEnrollment(old, { tokenId: await tokenOf('bootstrap', 'in use'), liveUntil: BEFORE })
  await recordEnrollment(old, { mode: 'runner-token', tokenId: await tokenOf('runner', 'long-lived') })
  await tokenOf('bootstrap', 'unused')
  expect(await run()).toBe(2)
  const left = await db.select({ id: token.id }).from(token)
  expect(left.map(({ id }) => id).sort()).toEqual(['in use', 'long-lived', 'unused'])
})

test('a run looks at so many rows, the next one goes on from there, and after the last it begins again', async () => {
  const old = (age: number) => subtractSeconds(BEFORE, minutes(age))
  const live = await Promise.all([900, 890, 880].map((age) => recordEnrollment(old(age), { liveUntil: BEFORE })))
  const dead = await Promise.all([800, 790, 780].map((age) => recordEnrollment(old(age))))
  const few = { rows: 2, parts: 1 }
  expect(await run(few)).toBe(0)
  expect(await run(few)).toBe(1)
  expect(await run(few)).toBe(2)
  await env.DB.prepare('UPDATE enrollment SET live_until = 0 WHERE id = ?').bind(live[0]).run()
  expect(await run(few)).toBe(0)
  expect(await run(few)).toBe(1)
  expect(await Promise.all([...live, ...dead].map(isThere))).toEqual([false, true, true, false, false, false])
})

test('a run has so many parts at most', async () => {
  for (let age = 0; age < 7; age++) await recordEnrollment(subtractSeconds(BEFORE, minutes(900 - age)))
  expect(await run({ rows: 2, parts: 2 })).toBe(4)
  expect(await run({ rows: 2, parts: 2 })).toBe(3)
})
