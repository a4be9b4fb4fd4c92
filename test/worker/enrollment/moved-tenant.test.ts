// Tests what becomes of a tenant's enrollments where the trust file moves the tenant to another database.
import 'reflect-metadata'
import { env } from 'cloudflare:test'
import { afterAll, expect, test } from 'vitest'
import { countNamed, insertBan } from '../../../src/worker/store/bans.ts'
import { findEnrollment } from '../../../src/worker/store/enrollments.ts'
import { findEvent } from '../../../src/worker/store/events.ts'
import { insertToken, listTokens, revokeToken } from '../../../src/worker/store/tokens.ts'
import { deployment } from '../../fakes/deployment.ts'
import { enrollBody, makeRequester } from '../../fakes/requester.ts'
import { connect, makeIssuers, mint, musterUnder, now, settled } from '../fleet/runners-fixture.ts'
import { openDatabase } from '../store/open-database.ts'

const tenants = ['default', 'acme', 'globex']
const others = { DB_1: env.SHARD_1 }
const [first, second] = [openDatabase(env.DB), openDatabase(env.SHARD_1)]

const inFirst = () => deployment.setTrust({ tenants })
const inSecond = () => deployment.setTrust({ tenants, shards: [{ tenant: 'globex', shard: 1 }] })
afterAll(() => deployment.setTrust({}))

inFirst()
deployment.setTime(Math.ceil(Date.now() / 1000) * 1000)
const { root, issuer } = await makeIssuers()
const muster = musterUnder(issuer, root, [], others)
/** The same one after the deploy. */
const moved = () => {
  inSecond()
  return musterUnder(issuer, root, [], others)
}

/** A runner that is used before its tenant moves, and for three hours after. */
async function runnerOfThreeHours() {
  inFirst()
  const { token, id } = await mint('bootstrap', null, 'globex', env.DB)
  const enrolled = await muster.enroll({ mode: 'bootstrap-token', token })
  let identity = await muster.renew(enrolled)
  const after = moved()
  for (let i = 0; i < 16; i++) {
    deployment.advance(700)
    identity = await after.renew(identity)
    expect(identity.status).toBe(200)
    await settled(enrolled.enrollmentId)
  }
  return { after, tokenId: id, identity, enrollmentId: enrolled.enrollmentId }
}

test('a token that is revoked long after ends the enrollment', async () => {
  const { after, tokenId, identity, enrollmentId } = await runnerOfThreeHours()
  await revokeToken(first, tokenId, now())
  await after.cron()
  expect(await after.renew(identity)).toMatchObject({ status: 401 })
  expect(await findEnrollment(first, enrollmentId)).toMatchObject({ endedReason: 'token_revoked' })
})

test('a ban counts the runner and closes its tunnel', async () => {
  const { after, identity, enrollmentId } = await runnerOfThreeHours()
  const tunnel = await connect(after, identity)
  await tunnel.hello()
  const ban = { kind: 'enrollment', value: enrollmentId } as const
  expect(await countNamed(first, ban, now())).toBe(1)
  for (const db of [first, second]) await insertBan(db, { ...ban, note: null, createdAt: now() })
  await after.cron()
  expect(await tunnel.closed()).toBe(4003)
})

test('a clone ends the enrollment where it is on record', async () => {
  inFirst()
  const { token } = await mint('bootstrap', null, 'globex', env.DB)
  const stolen = await muster.enroll({ mode: 'bootstrap-token', token })
  const renewed = await muster.renew(stolen)
  const after = moved()
  await after.renew(renewed)
  expect((await after.renew(stolen)).status).toBe(401)
  await settled(stolen.enrollmentId)
  expect(await findEnrollment(first, stolen.enrollmentId)).toMatchObject({ endedReason: 'clone_suspected' })
})

test('a token in the old database is unknown, and an enrollment that was never used does not begin', async () => {
  inFirst()
  const { token } = await mint('bootstrap', null, 'globex', env.DB)
  const [unused, never] = [
    await mint('bootstrap', null, 'globex', env.DB),
    await muster.enroll({ mode: 'bootstrap-token', token }),
  ]
  const after = moved()
  const body = enrollBody(await makeRequester(), { mode: 'bootstrap-token', token: unused.token })
  for (const { status, json } of [await after.post('/api/enroll', body), await after.renew(never)]) {
    expect(status).toBe(401)
    const [here, there] = [
      await findEvent(first, String(json.requestId)),
      await findEvent(second, String(json.requestId)),
    ]
    expect((here ?? there)?.reason).toMatch(/^(token_unknown|lineage_missing)$/)
  }
})

test('a token that was copied to the new database serves one key, and the copy in the old one is left alone', async () => {
  inFirst()
  const { token, id } = await mint('bootstrap', null, 'globex', env.DB)
  const row = (await listTokens(first, 1000)).find((one) => one.id === id)
  if (row === undefined) throw new Error('no token')
  await insertToken(second, row)
  const after = moved()
  const bodies = await Promise.all(
    Array.from({ length: 20 }, async () => enrollBody(await makeRequester(), { mode: 'bootstrap-token', token })),
  )
  const answers = await Promise.all(bodies.map((body) => after.post('/api/enroll', body)))
  expect(answers.filter(({ status }) => status === 200)).toHaveLength(1)
  expect((await listTokens(first, 1000)).find((one) => one.id === id)).toMatchObject({ usedAt: null })
})
