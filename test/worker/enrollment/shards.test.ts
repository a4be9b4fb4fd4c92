// Tests a Muster with three databases: each tenant's rows lie in its own, and one that is away stops its own tenants alone.
import 'reflect-metadata'
import { env } from 'cloudflare:test'
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest'
import { EVERY_HOUR } from '../../../src/worker/enrollment/sweep.ts'
import { insertBan, listBans, requestDrain } from '../../../src/worker/store/bans.ts'
import { findEnrollment } from '../../../src/worker/store/enrollments.ts'
import { findEvent, listEvents } from '../../../src/worker/store/events.ts'
import { listTokens, revokeToken } from '../../../src/worker/store/tokens.ts'
import { deployment } from '../../fakes/deployment.ts'
import { makeIssuer, makeIssuerKey } from '../../fakes/issuer.ts'
import { enrollBody, makeRequester } from '../../fakes/requester.ts'
import {
  connect,
  type Identity,
  makeIssuers,
  mint,
  musterUnder,
  now,
  ORIGIN,
  settled,
} from '../fleet/runners-fixture.ts'
import { openDatabase } from '../store/open-database.ts'
import { makeControlPlane } from './worker-fixture.ts'

const TENANTS = ['acme', 'globex', 'initech'] as const
type Tenant = (typeof TENANTS)[number]
const shards = [
  { tenant: 'globex', shard: 1 },
  { tenant: 'initech', shard: 2 },
]
const databases = { acme: env.DB, globex: env.SHARD_1, initech: env.SHARD_2 }
const others = { DB_1: env.SHARD_1, DB_2: env.SHARD_2 }
const dbOf = (tenant: Tenant) => openDatabase(databases[tenant])

const setTrust = () => deployment.setTrust({ tenants: ['default', ...TENANTS], shards })
beforeAll(setTrust)
afterAll(() => deployment.setTrust({}))
afterEach(() => {
  vi.restoreAllMocks()
})

setTrust()
deployment.setTime(Math.ceil(Date.now() / 1000) * 1000)
const { root, issuer } = await makeIssuers()
const muster = musterUnder(issuer, root, [], others)

/** Makes every call to a database fail. */
function goAway(tenant: Tenant): void {
  const away = async () => {
    throw new Error('D1_ERROR: away')
  }
  const statement = {
    bind: () => statement,
    all: away,
    run: away,
    raw: away,
    first: away,
  } as unknown as D1PreparedStatement
  vi.spyOn(databases[tenant], 'prepare').mockReturnValue(statement)
  vi.spyOn(databases[tenant], 'batch').mockImplementation(away)
}

const minted = (tenant: Tenant, kind: 'bootstrap' | 'runner' = 'bootstrap', runnerId: string | null = null) =>
  mint(kind, runnerId, tenant, databases[tenant])

async function enrolled(tenant: Tenant) {
  const { token, id } = await minted(tenant)
  return { tokenId: id, ...(await muster.enroll({ mode: 'bootstrap-token', token })) }
}

const post = async (token: string, mode = 'bootstrap-token') =>
  muster.post('/api/enroll', enrollBody(await makeRequester(), { mode, token }))

const name = (token: string) =>
  muster.fetch(
    new Request(`${ORIGIN}/muster.runner.v1.RunnerService/Enroll`, {
      method: 'POST',
      body: '{}',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${token}` },
    }),
  )

/** The tenants whose databases have what is asked for. */
const having = async (ask: (db: ReturnType<typeof dbOf>) => Promise<unknown>): Promise<Tenant[]> => {
  const found = await Promise.all(TENANTS.map((tenant) => ask(dbOf(tenant))))
  return TENANTS.filter((_, i) => found[i])
}

describe.each(TENANTS)('of the tenant %s', (tenant) => {
  test('token, enrollment, event and fleet row are in its database alone', async () => {
    const { token, id } = await minted(tenant)
    const requester = await makeRequester()
    const answered = await muster.post('/api/enroll', enrollBody(requester, { mode: 'bootstrap-token', token }))
    expect(answered).toMatchObject({ status: 200, json: { tenant } })
    const enrollmentId = String(answered.json.enrollmentId)
    expect(await having((db) => findEnrollment(db, enrollmentId))).toEqual([tenant])
    expect(
      await having(async (db) => (await listEvents(db, 1000)).some((e) => e.enrollmentId === enrollmentId)),
    ).toEqual([tenant])
    const used = (await listTokens(dbOf(tenant), 1000)).find((row) => row.id === id)
    expect(used).toMatchObject({ enrollmentId })

    deployment.advance(60)
    const identity: Identity = { certificate: String(answered.json.certificate), keys: requester.keys }
    expect(await muster.renew(identity)).toMatchObject({ status: 200, tenant })
    await settled(enrollmentId)
    const row = await findEnrollment(dbOf(tenant), enrollmentId)
    expect(row).toMatchObject({ begunAt: now(), seenAt: now() })
  })

  test('a repeated request gets the same certificate, and a second key is refused', async () => {
    const { token } = await minted(tenant)
    const body = enrollBody(await makeRequester(), { mode: 'bootstrap-token', token })
    const [first, again] = [await muster.post('/api/enroll', body), await muster.post('/api/enroll', body)]
    expect(again.json.certificate).toBe(first.json.certificate)
    const refused = await post(token)
    expect(refused).toMatchObject({ status: 401 })
    const id = String(refused.json.requestId)
    expect(await having(async (db) => (await findEvent(db, id))?.reason === 'token_used')).toEqual([tenant])
  })

  test('a repeated request when half of the certificate’s life is over asks the object, which finds its database', async () => {
    const { token } = await minted(tenant, 'runner', 'build-5')
    const requester = await makeRequester()
    const body = enrollBody(requester, { mode: 'runner-token', token })
    const first = await muster.post('/api/enroll', body)
    const { enrollmentId } = first.json
    deployment.advance(599)
    expect(await muster.post('/api/enroll', body)).toMatchObject({ status: 200, json: { enrollmentId } })
    expect(await having(async (db) => (await findEnrollment(db, String(enrollmentId)))?.begunAt != null)).toEqual([
      tenant,
    ])
  })

  test('a clone ends the enrollment in its database', async () => {
    const first = await enrolled(tenant)
    await muster.renew(await muster.renew(first))
    expect((await muster.renew(first)).status).toBe(401)
    await settled(first.enrollmentId)
    expect(await findEnrollment(dbOf(tenant), first.enrollmentId)).toMatchObject({ endedReason: 'clone_suspected' })
  })

  test('a minted token names its runner at the Connect door', async () => {
    const { token } = await minted(tenant, 'runner', `build-${tenant}`)
    expect(await (await name(token)).json()).toEqual({ runnerId: `build-${tenant}` })
  })

  test('a platform’s evidence asks its database once, and no other', async () => {
    const cluster = await makeIssuer('https://a.example.com', await makeIssuerKey('key-a'))
    const asked: Tenant[] = []
    for (const of of TENANTS) {
      const batch = databases[of].batch.bind(databases[of])
      vi.spyOn(databases[of], 'batch').mockImplementation((statements) => {
        asked.push(of)
        return batch(statements)
      })
    }
    const mapping = { tenant, cluster: 'c0', namespace: 'runners', serviceAccount: 'runner' }
    const plane = await makeControlPlane([cluster], {
      trust: { tenants: [...TENANTS], shards, kubernetesMappings: [mapping] },
      env: { DB: env.DB, ...others },
    })
    const answer = await plane.enroll(await cluster.token(plane.seconds()))
    const { enrollmentId } = await answer.json<{ enrollmentId: string }>()
    expect(await having((db) => findEnrollment(db, enrollmentId))).toEqual([tenant])
    // The reservation, and what is written after the answer.
    expect(asked).toEqual([tenant, tenant])
  })
})

describe('a minted token', () => {
  test('is looked for in all databases at once', async () => {
    const { promise: allAsked, resolve } = Promise.withResolvers<void>()
    let asked = 0
    for (const database of Object.values(databases)) {
      const batch = database.batch.bind(database)
      vi.spyOn(database, 'batch').mockImplementation(async (statements) => {
        if (++asked === 3) resolve()
        await allAsked
        return batch(statements)
      })
    }
    expect((await post((await minted('initech')).token)).status).toBe(200)
  })

  test('is used while another database is away, and so is its certificate', async () => {
    const [enrolling, runner] = [await minted('globex'), await minted('globex', 'runner', 'build-1')]
    goAway('acme')
    goAway('initech')
    const identity = await muster.enroll({ mode: 'bootstrap-token', token: enrolling.token })
    expect((await muster.renew(identity)).status).toBe(200)
    expect((await name(runner.token)).status).toBe(200)
    expect((await post(runner.token, 'runner-token')).status).toBe(200)
  })

  test('is not called unknown while the database that may have it is away', async () => {
    const [enrolling, runner] = [await minted('globex'), await minted('globex', 'runner', 'build-1')]
    goAway('globex')
    expect(await post(enrolling.token)).toMatchObject({ status: 503, json: { code: 'upstream_unavailable' } })
    expect(await (await name(runner.token)).json()).toMatchObject({ code: 'unavailable' })
    vi.restoreAllMocks()
    expect((await post(enrolling.token)).status).toBe(200)
    expect(await post(`muster_bt_${'A'.repeat(43)}`)).toMatchObject({ status: 401 })
  })

  test('in another database than its tenant is unknown, and not used up', async () => {
    const { token, id } = await mint('bootstrap', null, 'globex', env.DB)
    const refused = await post(token)
    expect(refused).toMatchObject({ status: 401 })
    expect(await findEvent(dbOf('acme'), String(refused.json.requestId))).toMatchObject({ reason: 'token_unknown' })
    expect((await listTokens(dbOf('acme'), 1000)).find((row) => row.id === id)).toMatchObject({ usedAt: null })
  })

  test('of fifty keys at once serves one', async () => {
    const { token } = await minted('initech')
    const answers = await Promise.all(Array.from({ length: 50 }, () => post(token)))
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1)
  })
})

describe('the job of each minute', () => {
  const opened: Awaited<ReturnType<typeof connect>>[][] = []

  test('closes banned, revoked and draining runners of every database in one run', async () => {
    const ban = { kind: 'runner-id', value: 'build-9', note: null } as const
    for (const tenant of TENANTS) {
      const { token } = await minted(tenant, 'runner', 'build-9')
      const [banned, revoked, draining] = [
        await muster.enroll({ mode: 'runner-token', token }),
        await enrolled(tenant),
        await enrolled(tenant),
      ]
      const tunnels = [await connect(muster, banned), await connect(muster, revoked), await connect(muster, draining)]
      for (const tunnel of tunnels) await tunnel.hello()
      opened.push(tunnels)
      await insertBan(dbOf(tenant), { ...ban, createdAt: now() })
      await revokeToken(dbOf(tenant), revoked.tokenId, now())
      await requestDrain(dbOf(tenant), { kind: 'enrollment', value: draining.enrollmentId }, now())
    }
    await muster.cron()
    for (const [banned, revoked, draining] of opened) {
      expect(await banned?.closed()).toBe(4003)
      expect(await revoked?.closed()).toBe(4003)
      expect(JSON.parse((await draining?.message()) ?? '')).toMatchObject({ type: 'drain' })
    }
  })
  test('does its work in the others while one is away, and ends with the fault', async () => {
    const [first, last] = [await enrolled('acme'), await enrolled('initech')]
    const tunnels = [await connect(muster, first), await connect(muster, last)]
    await revokeToken(dbOf('acme'), first.tokenId, now())
    await revokeToken(dbOf('initech'), last.tokenId, now())
    goAway('globex')
    await expect(muster.cron()).rejects.toThrow()
    for (const tunnel of tunnels) expect(await tunnel.closed()).toBe(4003)
  })

  test('gives a new database the bans of the first, and takes none away', async () => {
    const ban = { kind: 'identity', value: `id-${now()}`, note: 'a thief', createdAt: now() } as const
    await insertBan(dbOf('acme'), ban)
    await insertBan(dbOf('initech'), { ...ban, value: `other-${now()}` })
    await muster.cron()
    const has = (value: string) => having(async (db) => (await listBans(db)).some((row) => row.value === value))
    expect(await has(ban.value)).toEqual(['acme', 'globex', 'initech'])
    expect((await listBans(dbOf('globex'))).find(({ value }) => value === ban.value)).toMatchObject({ note: 'a thief' })
    expect(await has(`other-${now()}`)).toEqual(['initech'])
  })
})

test('a ban in the database of the tenant refuses enrollment, renewal and connection there', async () => {
  const identity = await enrolled('initech')
  await insertBan(dbOf('initech'), { kind: 'tenant', value: 'initech', note: null, createdAt: now() })
  deployment.advance(31)
  expect(await muster.renew(identity)).toMatchObject({ status: 403 })
  expect(await post((await minted('initech')).token)).toMatchObject({ status: 403 })
  expect((await post((await minted('globex')).token)).status).toBe(200)
  await env.SHARD_2.exec('DELETE FROM ban')
})

test.each(['runner-id', 'identity', 'token', 'enrollment'] as const)(
  'a ban by %s, which names no tenant, holds in a database while the others are away',
  async (kind) => {
    const { token, id } = await minted('initech', 'runner', 'build-77')
    const identity = await muster.enroll({ mode: 'runner-token', token })
    const value = { 'runner-id': 'build-77', identity: id, token: id, enrollment: identity.enrollmentId }[kind]
    for (const tenant of TENANTS) await insertBan(dbOf(tenant), { kind, value, note: null, createdAt: now() })
    goAway('acme')
    goAway('globex')
    deployment.advance(31)
    expect(await muster.renew(identity)).toMatchObject({ status: 403 })
    await expect(connect(muster, identity)).rejects.toThrow('"banned"')
    expect(await post(token, 'runner-token')).toMatchObject({ status: kind === 'enrollment' ? 200 : 403 })
    expect((await name(token)).status).toBe(kind === 'enrollment' ? 200 : 403)
    for (const database of Object.values(databases)) await database.exec('DELETE FROM ban').catch(() => {})
  },
)

test('an isolate that never read the bans of a database lets none of its tenants in while that is away', async () => {
  const [here, there] = [await enrolled('globex'), await enrolled('initech')]
  goAway('initech')
  const fresh = musterUnder(issuer, root, [], others)
  expect(await fresh.renew(there)).toMatchObject({ status: 503 })
  await expect(connect(fresh, there)).rejects.toThrow('upstream_unavailable')
  expect(await fresh.renew(here)).toMatchObject({ status: 200 })
})

test('the job of each hour deletes old events in every database', async () => {
  const ids = await Promise.all(TENANTS.map(async (tenant) => (await enrolled(tenant)).enrollmentId))
  const stored = () =>
    having(async (db) => (await listEvents(db, 1000)).some(({ enrollmentId }) => ids.includes(enrollmentId ?? '')))
  expect(await stored()).toEqual(TENANTS)
  deployment.advance(31 * 24 * 3600)
  await muster.cron(EVERY_HOUR)
  expect(await stored()).toEqual([])
})

describe('it is ready', () => {
  const ready = async (of = muster) => {
    const response = await of.fetch(new Request(`${ORIGIN}/readyz`))
    return { status: response.status, ...(await response.json<{ faults: string[] }>()) }
  }

  test('once every database answers', async () => {
    expect(await ready()).toMatchObject({ status: 200 })
    goAway('initech')
    expect(await ready()).toMatchObject({ status: 503, faults: ['D1 does not answer or is not migrated'] })
  })

  test('not where the trust file names a database that is not bound', async () => {
    const unbound = musterUnder(issuer, root, [], { DB_1: env.SHARD_1 })
    const fault = 'binding DB_2 is missing in wrangler.toml'
    expect(await ready(unbound)).toMatchObject({ status: 503, faults: expect.arrayContaining([fault]) })
    const body = enrollBody(await makeRequester(), { mode: 'bootstrap-token', token: (await minted('acme')).token })
    expect(await unbound.post('/api/enroll', body)).toMatchObject({
      status: 503,
      json: { code: 'not_configured', detail: fault },
    })
  })
})
