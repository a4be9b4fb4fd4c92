// Tests the tables: statements that decide by themselves, and limits on what a flood of requests can fill.
import { env } from 'cloudflare:test'
import { getTableConfig } from 'drizzle-orm/sqlite-core'
import { describe, expect, test } from 'vitest'
import {
  addSeconds,
  type EpochSeconds,
  epochMilliseconds,
  epochSeconds,
  hours,
  seconds,
  subtractSeconds,
} from '../../../src/protocol/time.ts'
import { uuidv7 } from '../../../src/protocol/uuid.ts'
import {
  countUnderIssuer,
  enrollment,
  sharersOf,
  updateEnded,
  updateFleetRow,
} from '../../../src/worker/store/enrollments.ts'
import { type EventRow, event, insertRefusal, listEvents, pruneEvents } from '../../../src/worker/store/events.ts'
import { makeRefusalCap } from '../../../src/worker/store/refusal-cap.ts'
import { insertToken, liveRunnerIdWithSlash, revokeToken, token } from '../../../src/worker/store/tokens.ts'
import { recordEnrollment } from './enrollment-rows.ts'
import { openDatabase } from './open-database.ts'

const db = openDatabase(env.DB)
const NOW = epochSeconds(1_800_000_000)

test.each([
  ['token', token],
  ['enrollment', enrollment],
  ['event', event],
] as const)('the table %s has the columns that the queries name', async (name, table) => {
  const { results } = await env.DB.prepare(`SELECT name, "notnull" FROM pragma_table_info('${name}')`).all()
  expect(results.map((column) => [column.name, column.notnull === 1])).toEqual(
    getTableConfig(table).columns.map((column) => [column.name, column.notNull]),
  )
})

describe('others of one runner ID', () => {
  /** Enrolled with the runner ID so many seconds ago. */
  const enrolled = (runnerId: string, age: number) =>
    recordEnrollment(subtractSeconds(NOW, seconds(age)), { mode: 'runner-token', runnerId })

  test('may be live where their rows are an hour old at the most, the newest first', async () => {
    const [old, newer] = [await enrolled('maybe', 4800), await enrolled('maybe', 4000)]
    await enrolled('maybe', 900 + 3960 + 1)
    await updateEnded(db, [await enrolled('maybe', 0)], 'clone_suspected', NOW)
    const mine = { runnerId: 'maybe', enrollmentId: await enrolled('maybe', 0) }
    expect(await sharersOf(db, mine, NOW, 5)).toEqual([newer, old])
    expect(await sharersOf(db, mine, NOW, 1)).toEqual([newer])
  })

  test('are none where nobody else has it', async () => {
    const enrollmentId = await enrolled('mine', 0)
    expect(await sharersOf(db, { runnerId: 'mine', enrollmentId }, NOW, 5)).toEqual([])
  })
})

test('a provisioned certificate counts under its issuer until it ends, whatever it was renewed to', async () => {
  const issuer = crypto.randomUUID()
  const notAfter = addSeconds(NOW, hours(24))
  const enrollmentId = await recordEnrollment(NOW, { mode: 'provisioned', issuer, notAfter })
  const seen = { enrollmentId, seenAt: NOW, connected: true, instanceId: null, agent: null }
  await updateFleetRow(db, { ...seen, liveUntil: notAfter, issuer: 'next' })
  expect(await countUnderIssuer(db, issuer, NOW)).toBe(1)
  expect(await countUnderIssuer(db, issuer, notAfter)).toBe(1)
  expect(await countUnderIssuer(db, issuer, addSeconds(notAfter, seconds(1)))).toBe(0)
})

test('only a live runner token with a slash in its ID is found as a conflict', async () => {
  const mint = async (expiresAt: EpochSeconds | null, runnerId: string) => {
    const id = uuidv7(epochMilliseconds(NOW * 1000))
    const row = { hash: crypto.randomUUID(), id, kind: 'runner', tenant: 'acme', runnerId, createdAt: NOW, expiresAt }
    await insertToken(db, { ...row, kind: 'runner' })
    return id
  }
  expect(await liveRunnerIdWithSlash(db, NOW)).toBeNull()
  await mint(NOW, 'expired/one')
  expect(await liveRunnerIdWithSlash(db, NOW)).toBeNull()
  const id = await mint(null, 'a/b')
  expect(await liveRunnerIdWithSlash(db, NOW)).toBe('a/b')
  await revokeToken(db, id, NOW)
  expect(await liveRunnerIdWithSlash(db, NOW)).toBeNull()
})

function eventRow(time: number, proven: boolean): EventRow {
  const at = epochSeconds(time)
  return {
    id: uuidv7(epochMilliseconds(time * 1000)),
    time: at,
    outcome: 'refused',
    reason: 'token_unknown',
    proven,
    mode: null,
    tenant: null,
    source: null,
    identity: null,
    runnerId: null,
    enrollmentId: null,
    serial: null,
    spiffeId: null,
    instanceId: null,
    colo: null,
    detail: null,
    claimed: { token: 'x' },
  }
}

test('400 refusals write under 100 rows, and garbage does not hide a caller who proved something', async () => {
  for (let i = 0; i < 300; i++) await insertRefusal(db, eventRow(NOW, false))
  for (let i = 0; i < 99; i++) await insertRefusal(db, { ...eventRow(NOW, true), reason: 'token_used' })
  await insertRefusal(db, { ...eventRow(NOW, true), reason: 'clone_suspected' })
  const rows = await listEvents(db, 1000)
  expect(rows.length).toBe(51)
  expect(rows.some((row) => row.reason === 'clone_suspected')).toBe(true)
  expect(rows[0]?.claimed).toEqual({ token: 'x' })
})

test('after a flood there is room for one refusal a second, so that the latest can be explained', async () => {
  for (const second of [1, 1, 2, 2]) await insertRefusal(db, eventRow(NOW + second, false))
  expect((await listEvents(db, 2)).map((row) => row.time)).toEqual([NOW + 2, NOW + 1])
})

test('an isolate asks the database for no more than there can be room for', () => {
  const gate = makeRefusalCap()
  const asked = Array.from({ length: 400 }, (_, i) =>
    gate.admits({ ...eventRow(NOW, false), time: addSeconds(NOW, seconds(Math.floor(i / 40))) }),
  )
  expect(asked.filter(Boolean).length).toBe(30 + 9)
  const proven = { ...eventRow(NOW, true), tenant: 'acme' }
  expect(Array.from({ length: 100 }, () => gate.admits(proven)).filter(Boolean).length).toBe(20)
  const clone = { ...proven, reason: 'clone_suspected' }
  expect([gate.admits(clone), gate.admits(clone)]).toEqual([true, false])
})

test('neither another tenant nor an identity without one hides what a tenant is refused', async () => {
  const gate = makeRefusalCap()
  const time = epochSeconds(NOW + 1000)
  const stranger = { ...eventRow(time, true), reason: 'tenant_none' }
  const rows = [
    ...Array.from({ length: 100 }, () => ({ ...stranger, id: uuidv7(epochMilliseconds(time * 1000)) })),
    ...['acme', 'globex'].flatMap((tenant) =>
      Array.from({ length: 5 }, () => ({ ...eventRow(time, true), reason: 'clone_suspected', tenant })),
    ),
  ]
  for (const row of rows) if (gate.admits(row)) await insertRefusal(db, row)
  const written = (await listEvents(db, 1000)).filter((row) => row.time === time)
  expect(written.filter(({ tenant }) => tenant === null)).toHaveLength(20)
  expect(written.filter(({ tenant }) => tenant === 'acme')).toHaveLength(5)
  expect(written.filter(({ tenant }) => tenant === 'globex')).toHaveLength(5)
})

test('events older than the bound are deleted, younger ones are not', async () => {
  await db.insert(event).values(eventRow(NOW - 100, true))
  await pruneEvents(db, epochSeconds(NOW))
  const rows = await listEvents(db, 1000)
  expect(rows.every((row) => row.time >= NOW)).toBe(true)
  expect(rows.length).toBeGreaterThan(0)
})
