// Tests the tables: statements that decide by themselves, and limits on what a flood of requests can fill.
import { env } from 'cloudflare:test'
import { getTableConfig } from 'drizzle-orm/sqlite-core'
import { describe, expect, test } from 'vitest'
import {
  addSeconds,
  epochMilliseconds,
  epochSeconds,
  hours,
  minutes,
  seconds,
  subtractSeconds,
} from '../../../src/protocol/time.ts'
import { uuidv7 } from '../../../src/protocol/uuid.ts'
import { openDatabase } from '../../../src/worker/store/db.ts'
import {
  countUnderIssuer,
  enrollment,
  insertProvisioned,
  type Proposal,
  reserveWithBootstrapToken,
  reserveWithEvidence,
  sharersOf,
  updateEnded,
  updateFleetRow,
} from '../../../src/worker/store/enrollments.ts'
import {
  type EventRow,
  event,
  insertEvent,
  insertRefusal,
  listEvents,
  pruneEvents,
} from '../../../src/worker/store/events.ts'
import { makeRefusalCap } from '../../../src/worker/store/refusal-cap.ts'
import { insertToken, liveRunnerIdWithSlash, revokeToken, token } from '../../../src/worker/store/tokens.ts'

const db = openDatabase(env.DB)
const NOW = epochSeconds(1_800_000_000)

function proposal(publicKeyHash: string, changes: Partial<Proposal> = {}): Proposal {
  const id = uuidv7(epochMilliseconds(NOW * 1000))
  return {
    enrollmentId: id,
    mode: 'bootstrap-token',
    source: '',
    tenant: 'acme',
    identity: 'i',
    runnerId: null,
    tokenId: null,
    instanceId: null,
    enrolledAt: NOW,
    publicKeyHash,
    serial: id,
    spiffeId: 'spiffe://rootpilot/tenant/acme/runner',
    notBefore: NOW,
    notAfter: addSeconds(NOW, minutes(15)),
    issuer: 'k',
    ...changes,
  }
}

async function minted(
  kind: 'bootstrap' | 'runner',
  expiresAt: number | null = NOW + 3600,
  runnerId: string | null = null,
): Promise<string> {
  const id = uuidv7(epochMilliseconds(NOW * 1000))
  await insertToken(db, {
    hash: crypto.randomUUID(),
    id,
    kind,
    tenant: 'acme',
    runnerId,
    createdAt: NOW,
    expiresAt: expiresAt === null ? null : epochSeconds(expiresAt),
  })
  return id
}

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

test('of 50 parallel uses of one token with 50 keys exactly one makes an enrollment', async () => {
  const id = await minted('bootstrap')
  const outcomes = await Promise.all(
    Array.from({ length: 50 }, async (_, i) => {
      const wanted = proposal(`race-${i}`)
      const reserved = await reserveWithBootstrapToken(db, id, wanted)
      return reserved?.enrollment?.enrollmentId === wanted.enrollmentId
    }),
  )
  expect(outcomes.filter(Boolean)).toHaveLength(1)
  expect(
    (await env.DB.prepare("SELECT count(*) AS n FROM enrollment WHERE public_key_hash LIKE 'race-%'").first())?.n,
  ).toBe(1)
})

test('parallel uses of one token with one key make one enrollment and all see it', async () => {
  const id = await minted('bootstrap')
  const all = await Promise.all(
    Array.from({ length: 20 }, () => reserveWithBootstrapToken(db, id, proposal('one-key'))),
  )
  expect(new Set(all.map((reserved) => reserved?.enrollment?.enrollmentId)).size).toBe(1)
})

test.each([
  ['expired', async () => minted('bootstrap', NOW)],
  ['of the other kind', async () => minted('runner')],
  [
    'revoked',
    async () => {
      const id = await minted('bootstrap')
      await revokeToken(db, id, NOW)
      return id
    },
  ],
])('a token that is %s makes no enrollment', async (_, mint) => {
  const reserved = await reserveWithBootstrapToken(db, await mint(), proposal(crypto.randomUUID()))
  expect(reserved?.enrollment).toBeNull()
})

test('a token expires at its second, not one earlier', async () => {
  const id = await minted('bootstrap', NOW + 1)
  expect((await reserveWithBootstrapToken(db, id, proposal('last-second')))?.enrollment).not.toBeNull()
})

test('the same evidence and key within 10 minutes is the same enrollment, and a new one after', async () => {
  const first = await reserveWithEvidence(db, proposal('same', { mode: 'kubernetes' }))
  const again = await reserveWithEvidence(
    db,
    proposal('same', { mode: 'kubernetes', enrolledAt: addSeconds(NOW, minutes(10)) }),
  )
  const later = await reserveWithEvidence(
    db,
    proposal('same', { mode: 'kubernetes', enrolledAt: addSeconds(NOW, seconds(601)) }),
  )
  expect(again?.enrollmentId).toBe(first?.enrollmentId)
  expect(later?.enrollmentId).not.toBe(first?.enrollmentId)
})

test.each<[string, Partial<Proposal>]>([
  ['identity', { identity: 'other' }],
  ['tenant', { tenant: 'other' }],
  ['source', { source: 'other' }],
  ['runner ID', { runnerId: 'other' }],
  ['mode', { mode: 'aws-sts' }],
])('the same key with another %s is another enrollment', async (_, change) => {
  const key = crypto.randomUUID()
  const first = await reserveWithEvidence(db, proposal(key, { mode: 'kubernetes' }))
  const other = await reserveWithEvidence(db, proposal(key, { mode: 'kubernetes', ...change }))
  expect(other?.enrollmentId).not.toBe(first?.enrollmentId)
})

describe('others of one runner ID', () => {
  /** Enrolls with the runner ID; `age`: how long ago, in seconds. */
  async function enrolled(runnerId: string, age: number, changes: Partial<Proposal> = {}): Promise<string> {
    const at = subtractSeconds(NOW, seconds(age))
    const one = proposal(crypto.randomUUID(), {
      mode: 'runner-token',
      runnerId,
      enrolledAt: at,
      notAfter: addSeconds(at, minutes(15)),
      ...changes,
    })
    await reserveWithEvidence(db, one)
    return one.enrollmentId
  }

  test('are live by their rows, however many older ones there are', async () => {
    for (let i = 0; i < 50; i++) await enrolled('many', 3600 - i)
    await enrolled('many', 0)
    expect(await sharersOf(db, { runnerId: 'many', enrollmentId: 'mine' }, NOW, 5)).toEqual({ live: true, maybe: [] })
  })

  test('may be live where their rows are an hour old at the most, the newest first', async () => {
    const [old, newer] = [await enrolled('maybe', 4800), await enrolled('maybe', 4000)]
    await enrolled('maybe', 900 + 3960 + 1)
    await updateEnded(db, [await enrolled('maybe', 0)], 'clone_suspected', NOW)
    const mine = await enrolled('maybe', 0)
    expect(await sharersOf(db, { runnerId: 'maybe', enrollmentId: mine }, NOW, 5)).toEqual({
      live: false,
      maybe: [newer, old],
    })
    expect(await sharersOf(db, { runnerId: 'maybe', enrollmentId: mine }, NOW, 1)).toEqual({
      live: false,
      maybe: [newer],
    })
  })

  test('are none where nobody else has it', async () => {
    const mine = await enrolled('mine', 0)
    expect(await sharersOf(db, { runnerId: 'mine', enrollmentId: mine }, NOW, 5)).toEqual({ live: false, maybe: [] })
  })
})

test('a provisioned certificate counts under its issuer until it ends, whatever it was renewed to', async () => {
  const issuer = crypto.randomUUID()
  const notAfter = addSeconds(NOW, hours(24))
  const one = proposal(crypto.randomUUID(), { mode: 'provisioned', identity: '', issuer, notAfter })
  await insertProvisioned(db, one)
  const { enrollmentId } = one
  const seen = { enrollmentId, seenAt: NOW, connected: true, instanceId: null, agent: null }
  await updateFleetRow(db, { ...seen, liveUntil: notAfter, issuer: 'next' })
  expect(await countUnderIssuer(db, issuer, NOW)).toBe(1)
  expect(await countUnderIssuer(db, issuer, notAfter)).toBe(1)
  expect(await countUnderIssuer(db, issuer, addSeconds(notAfter, seconds(1)))).toBe(0)
})

test('a runner token that was revoked meanwhile reserves nothing', async () => {
  const tokenId = await minted('runner', null, 'r1')
  expect(await reserveWithEvidence(db, proposal('rt-1', { mode: 'runner-token', tokenId }))).not.toBeNull()
  await revokeToken(db, tokenId, NOW)
  expect(await reserveWithEvidence(db, proposal('rt-1', { mode: 'runner-token', tokenId }))).toBeNull()
  expect(await reserveWithEvidence(db, proposal('rt-2', { mode: 'runner-token', tokenId }))).toBeNull()
})

test('only a live runner token with a slash in its ID is found as a conflict', async () => {
  expect(await liveRunnerIdWithSlash(db, NOW)).toBeNull()
  await minted('runner', NOW, 'expired/one')
  expect(await liveRunnerIdWithSlash(db, NOW)).toBeNull()
  const id = await minted('runner', null, 'a/b')
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
  await insertEvent(db, eventRow(NOW - 100, true))
  await pruneEvents(db, epochSeconds(NOW))
  const rows = await listEvents(db, 1000)
  expect(rows.every((row) => row.time >= NOW)).toBe(true)
  expect(rows.length).toBeGreaterThan(0)
})
