// Tests the job of each minute and of each hour with several databases: many of them, and one that does not answer.
import 'reflect-metadata'
import { env } from 'cloudflare:test'
import { afterAll, afterEach, expect, test, vi } from 'vitest'
import { EVERY_HOUR } from '../../../src/worker/enrollment/sweep.ts'
import { insertBan } from '../../../src/worker/store/bans.ts'
import { listEvents } from '../../../src/worker/store/events.ts'
import { deployment } from '../../fakes/deployment.ts'
import { connect, makeIssuers, mint, musterUnder, now } from '../fleet/runners-fixture.ts'
import { openDatabase } from '../store/open-database.ts'

const shards = [
  { tenant: 'globex', shard: 1 },
  { tenant: 'initech', shard: 2 },
]
deployment.setTrust({ tenants: ['default', 'acme', 'globex', 'initech'], shards })
deployment.setTime(Math.ceil(Date.now() / 1000) * 1000)
afterAll(() => deployment.setTrust({}))
afterEach(() => {
  vi.restoreAllMocks()
})

const { root, issuer } = await makeIssuers()
/** As many as there can be; those beyond the third share one. */
const bound = Object.fromEntries(
  Array.from({ length: 15 }, (_, i) => [`DB_${i + 1}`, i === 0 ? env.SHARD_1 : env.SHARD_2]),
)
const several = musterUnder(issuer, root, [], { DB_1: env.SHARD_1, DB_2: env.SHARD_2 })

async function connected(tenant: string, database: D1Database) {
  const { token, id } = await mint('bootstrap', null, tenant, database)
  const tunnel = await connect(several, await several.enroll({ mode: 'bootstrap-token', token }))
  await tunnel.hello()
  return { id, tunnel }
}

/** Makes every call to a database wait for ever. */
function fallSilent(database: D1Database): void {
  const silent = () => new Promise<never>(() => {})
  const statement = { bind: () => statement, all: silent, run: silent, raw: silent, first: silent }
  vi.spyOn(database, 'prepare').mockReturnValue(statement as unknown as D1PreparedStatement)
  vi.spyOn(database, 'batch').mockImplementation(silent)
}

test('with sixteen databases, one run closes the tunnel of the twentieth ban of a batch', async () => {
  const { id, tunnel } = await connected('initech', env.SHARD_2)
  for (const database of [env.DB, env.SHARD_1, env.SHARD_2]) {
    const db = openDatabase(database)
    const ban = (kind: 'runner-id' | 'token', value: string, createdAt = now()) =>
      insertBan(db, { kind, value, note: null, createdAt })
    for (let i = 1; i < 20; i++) await ban('runner-id', `build-${i}`)
    deployment.advance(1)
    await ban('token', id)
    deployment.advance(-1)
  }
  deployment.advance(1)
  await musterUnder(issuer, root, [], bound).cron()
  expect(await tunnel.closed()).toBe(4003)
})

test('one that does not answer keeps neither job from the others', async () => {
  const [first, last] = [await connected('acme', env.DB), await connected('initech', env.SHARD_2)]
  const dbs = [openDatabase(env.DB), openDatabase(env.SHARD_2)]
  for (const db of dbs)
    for (const { id } of [first, last]) await insertBan(db, { kind: 'token', value: id, note: null, createdAt: now() })
  fallSilent(env.SHARD_1)
  const minute = several.cron().catch(() => {})
  for (const { tunnel } of [first, last]) expect(await tunnel.closed()).toBe(4003)
  await minute
  deployment.advance(31 * 24 * 3600)
  // It ends when the silent one does.
  several.cron(EVERY_HOUR).catch(() => {})
  for (const db of dbs) await expect.poll(() => listEvents(db, 1000)).toEqual([])
})
