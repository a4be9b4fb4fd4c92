// Tests the cron jobs of the Worker, and that wrangler.toml schedules all of them.
import 'reflect-metadata'
import { env, runInDurableObject } from 'cloudflare:test'
import { expect, test, vi } from 'vitest'
import { EVERY_HOUR } from '../../../src/worker/enrollment/sweep.ts'
import { insertBan, requestDrain } from '../../../src/worker/store/bans.ts'
import { findEnrollment } from '../../../src/worker/store/enrollments.ts'
import { listTokens, revokeToken } from '../../../src/worker/store/tokens.ts'
import wrangler from '../../../wrangler.toml?raw'
import { deployment } from '../../fakes/deployment.ts'
import { connect, db, mint, now, settled, startMuster } from '../fleet/runners-fixture.ts'

const { muster } = await startMuster()

const objectOf = (enrollmentId: string) => env.ENROLLMENTS.getByName(enrollmentId)
const endOf = async (enrollmentId: string) => (await findEnrollment(db, enrollmentId))?.endedReason

async function enrolled() {
  const { token, id } = await mint()
  return { id, ...(await muster.enroll({ mode: 'bootstrap-token', token })) }
}

test('an enrollment has ended once its object says so, not while the object throws', async () => {
  const identity = await enrolled()
  const { id, enrollmentId } = identity
  const tunnel = await connect(muster, identity)
  await tunnel.hello()
  const failing = await runInDurableObject(objectOf(enrollmentId), (_, { storage }) =>
    vi.spyOn(storage.kv, 'put').mockImplementation(() => {
      throw new Error('storage is away')
    }),
  )
  await revokeToken(db, id, now())
  await muster.cron()
  expect(await endOf(enrollmentId)).toBeNull()
  failing.mockRestore()
  await muster.cron()
  expect(await tunnel.closed()).toBe(4003)
  expect(await endOf(enrollmentId)).toBe('token_revoked')
})

test('a revoked token ends its enrollment whatever else refuses it, and for good', async () => {
  const { id, ...first } = await enrolled()
  const { enrollmentId, ...identity } = await muster.renew(first)
  await revokeToken(db, id, now())
  deployment.setTrust({ tenants: ['default'] })
  await muster.cron()
  deployment.setTrust({})
  expect(await objectOf(enrollmentId).status()).toMatchObject({ ended: 'token_revoked' })
  expect(await endOf(enrollmentId)).toBe('token_revoked')
  expect((await muster.renew(identity)).status).toBe(401)
})

test('an enrollment that ended before keeps its reason, and one that never began ends, too', async () => {
  const stolen = await enrolled()
  await muster.renew(await muster.renew(stolen))
  await muster.renew(stolen)
  await settled(stolen.enrollmentId)
  await env.DB.prepare('UPDATE enrollment SET ended_at = NULL, ended_reason = NULL WHERE id = ?')
    .bind(stolen.enrollmentId)
    .run()
  const never = await enrolled()
  for (const { id } of [stolen, never]) await revokeToken(db, id, now())
  await muster.cron()
  expect(await endOf(stolen.enrollmentId)).toBe('clone_suspected')
  expect(await endOf(never.enrollmentId)).toBe('token_revoked')
  expect((await muster.renew(never)).status).toBe(401)
})

test('a ban and a revocation reach a runner whose row is an hour behind', async () => {
  const [banned, revoked] = [await enrolled(), await enrolled()]
  let newest = { banned: await muster.renew(banned), revoked: await muster.renew(revoked) }
  for (let i = 0; i < 5; i++) {
    deployment.advance(700)
    newest = { banned: await muster.renew(newest.banned), revoked: await muster.renew(newest.revoked) }
  }
  // Its last second, and a row that says that it ended 45 minutes ago.
  deployment.advance(900)
  const tunnels = [await connect(muster, newest.banned), await connect(muster, newest.revoked)]
  await insertBan(db, { kind: 'token', value: banned.id, note: null, createdAt: now() })
  await revokeToken(db, revoked.id, now())
  await muster.cron()
  for (const tunnel of tunnels) expect(await tunnel.closed()).toBe(4003)
})

test('one run closes the tunnel of the fortieth ban of a batch, too', async () => {
  const identity = await enrolled()
  const tunnel = await connect(muster, identity)
  await tunnel.hello()
  const ban = (value: string) => insertBan(db, { kind: 'runner-id', value, note: null, createdAt: now() })
  for (let i = 1; i < 40; i++) await ban(`build-${i}`)
  deployment.advance(1)
  await insertBan(db, { kind: 'token', value: identity.id, note: null, createdAt: now() })
  await muster.cron()
  expect(await tunnel.closed()).toBe(4003)
})

test('a drain that D1 failed in reaches the runner by the next run', async () => {
  const identity = await enrolled()
  await requestDrain(db, { kind: 'enrollment', value: identity.enrollmentId }, now())
  const away = vi.spyOn(env.DB, 'batch').mockRejectedValueOnce(new Error('D1_ERROR: away'))
  await muster.cron()
  expect(away).toHaveBeenCalled()
  away.mockRestore()
  expect((await findEnrollment(db, identity.enrollmentId))?.drainAt).not.toBeNull()
  await muster.cron()
  const tunnel = await connect(muster, identity)
  await tunnel.hello()
  expect(await tunnel.message()).toBe('{"type":"drain"}')
})

test('the hourly job deletes an enrollment once it has been over for 30 days, with its token', async () => {
  const identity = await enrolled()
  const recorded = async () => (await findEnrollment(db, identity.enrollmentId)) !== null
  const isListed = async () => (await listTokens(db, 1000)).some(({ id }) => id === identity.id)
  deployment.advance(30 * 24 * 3600)
  await muster.cron(EVERY_HOUR)
  expect([await recorded(), await isListed()]).toEqual([true, true])
  // Its certificate, the hour that its row may be behind, and its renewal window.
  deployment.advance(900 + 3600 + 360 + 1)
  await muster.cron(EVERY_HOUR)
  expect([await recorded(), await isListed()]).toEqual([false, false])
})

test('the hourly job is one of the crons that wrangler.toml names, and each minute is the other', () => {
  const crons: unknown = JSON.parse(/^crons = (.*)$/m.exec(wrangler)?.[1] ?? 'null')
  expect(crons).toEqual(['* * * * *', EVERY_HOUR])
})
