// Tests the Durable Object of an enrollment: what it writes, when its alarm runs, what it deletes.
import { env, evictDurableObject, runDurableObjectAlarm, runInDurableObject } from 'cloudflare:test'
import { expect, test, vi } from 'vitest'
import type { Leaf } from '../../../src/protocol/leaf.ts'
import { epochSeconds, toEpochSeconds } from '../../../src/protocol/time.ts'
import { uuidv7 } from '../../../src/protocol/uuid.ts'
import { type BanList, NO_BANS } from '../../../src/trust/bans.ts'
import type { SignedLeaf } from '../../../src/worker/fleet/lineage.ts'
import type { EnrollmentStart } from '../../../src/worker/fleet/record.ts'
import { findEnrollment } from '../../../src/worker/store/enrollments.ts'
import { deployment } from '../../fakes/deployment.ts'
import { makeRequester } from '../../fakes/requester.ts'
import { connect, db, enrollByToken, settled, startMuster } from './runners-fixture.ts'

const { muster } = await startMuster()

const objectOf = (enrollmentId: string) => env.ENROLLMENTS.getByName(enrollmentId)
const alarmOf = (enrollmentId: string) =>
  runInDurableObject(objectOf(enrollmentId), (_, { storage }) => storage.getAlarm())

/** What the object writes while `work` runs: values, and changes of the alarm, each of which is a row. */
async function writesDuring(
  enrollmentId: string,
  work: () => Promise<unknown>,
): Promise<{ rows: number; alarms: number }> {
  const spies = await runInDurableObject(objectOf(enrollmentId), (_, { storage }) => ({
    put: vi.spyOn(storage.kv, 'put'),
    setAlarm: vi.spyOn(storage, 'setAlarm'),
  }))
  await work()
  const counts = { rows: spies.put.mock.calls.length, alarms: spies.setAlarm.mock.calls.length }
  spies.put.mockRestore()
  spies.setAlarm.mockRestore()
  return counts
}

test('a renewal is one row written, and leaves the alarm alone', async () => {
  const identity = await enrollByToken(muster)
  expect(await writesDuring(identity.enrollmentId, () => muster.renew(identity))).toEqual({ rows: 1, alarms: 0 })
})

test('a repeated renewal writes a row at most', async () => {
  const identity = await enrollByToken(muster)
  const asking = await makeRequester()
  await muster.renew(identity, asking)
  const { rows } = await writesDuring(identity.enrollmentId, () => muster.renew(identity, asking))
  expect(rows).toBeLessThanOrEqual(1)
})

test('twenty copies of one renewal at once get one certificate, byte for byte', async () => {
  const identity = await enrollByToken(muster)
  const asking = await makeRequester()
  const answers = await Promise.all(Array.from({ length: 20 }, () => muster.renew(identity, asking)))
  expect(new Set(answers.map(({ certificate }) => certificate)).size).toBe(1)
})

test('the alarm comes with the end of a connection, then with the clean-up', async () => {
  const identity = await enrollByToken(muster)
  const { enrollmentId } = identity
  const from = toEpochSeconds(deployment.clock())
  expect(await alarmOf(enrollmentId)).toBe((from + 900 + 360 + 60 + 1) * 1000)
  await connect(muster, identity)
  expect(await alarmOf(enrollmentId)).toBe((from + 900) * 1000)
  deployment.advance(600)
  await muster.renew(identity)
  deployment.advance(300)
  await runDurableObjectAlarm(objectOf(enrollmentId))
  // The fleet's row was written with the renewal, and the last one waits until that is an hour ago.
  expect(await alarmOf(enrollmentId)).toBe((from + 600 + 3600 + 1) * 1000)
  deployment.advance(3300 + 1)
  await runDurableObjectAlarm(objectOf(enrollmentId))
  expect(await objectOf(enrollmentId).status()).toBeNull()
  expect(await alarmOf(enrollmentId)).toBeNull()
})

test('an alarm that comes early or twice does no harm', async () => {
  const identity = await enrollByToken(muster)
  await runDurableObjectAlarm(objectOf(identity.enrollmentId))
  await runDurableObjectAlarm(objectOf(identity.enrollmentId))
  expect((await muster.renew(identity)).status).toBe(200)
})

const presentedBy = (begun: EnrollmentStart, tenant: string): Leaf => ({
  ...begun.certificate,
  enrollmentId: begun.enrollmentId,
  tenant,
  mode: 'bootstrap-token',
  source: '',
})

const certificate = (serial: string): SignedLeaf => ({
  serial,
  publicKeyHash: `key of ${serial}`,
  spiffeId: 'spiffe://rootpilot/tenant/acme/runner',
  notBefore: epochSeconds(toEpochSeconds(deployment.clock()) - 60),
  notAfter: epochSeconds(toEpochSeconds(deployment.clock()) + 900),
  issuer: 'issuer',
  der: crypto.getRandomValues(new Uint8Array(640)),
})

function start(tokenId: string): EnrollmentStart {
  const decision = { tenant: 'acme', runnerId: null, mode: 'bootstrap-token', source: '', identity: tokenId } as const
  return {
    enrollmentId: uuidv7(deployment.clock()),
    claims: { mode: 'bootstrap-token', tokenId, tenant: 'acme' },
    decision,
    instanceId: null,
    enrolledAt: toEpochSeconds(deployment.clock()),
    certificate: certificate('first'),
  }
}

test('an enrollment may begin again until it has gone on', async () => {
  const begun = start('token')
  const runner = objectOf(begun.enrollmentId)
  const presented = presentedBy(begun, 'acme')
  expect(await runner.begin(begun, NO_BANS)).toEqual({ ok: true, value: begun.certificate })
  const again = { ...begun, certificate: { ...begun.certificate, der: new Uint8Array(640) } }
  expect(await runner.begin(again, NO_BANS)).toEqual({ ok: true, value: begun.certificate })
  await runner.renew(presented, certificate('second'), NO_BANS)
  expect(await runner.begin(begun, NO_BANS)).toMatchObject({ ok: false, error: { reason: 'token_retry_over' } })
})

test('an enrollment is one row written, and one alarm', async () => {
  const begun = start('token')
  const begin = () => objectOf(begun.enrollmentId).begin(begun, NO_BANS)
  expect(await writesDuring(begun.enrollmentId, begin)).toEqual({ rows: 1, alarms: 1 })
  expect(await writesDuring(begun.enrollmentId, begin)).toEqual({ rows: 0, alarms: 0 })
})

test('an enrollment that was cut off meanwhile does not begin', async () => {
  const begun = start('cut-off')
  const list: BanList = {
    at: toEpochSeconds(deployment.clock()),
    bans: [{ kind: 'enrollment', value: begun.enrollmentId }],
    revokedTokens: [],
  }
  const runner = objectOf(begun.enrollmentId)
  expect(await runner.begin(begun, list)).toMatchObject({ ok: false, error: { reason: 'banned' } })
  expect(await runner.status()).toBeNull()
})

test('a certificate and a challenge end by the clock of the object, which forgets them by it', async () => {
  const begun = start('token')
  const runner = objectOf(begun.enrollmentId)
  await runner.begin(begun, NO_BANS)
  const presented = presentedBy(begun, 'acme')
  const challenge = { challenge: 'c', expiresAt: epochSeconds(toEpochSeconds(deployment.clock()) - 1) }
  const refusal = (reason: string) => ({ result: { ok: false, error: { reason } } })
  expect(await runner.admit(presented, challenge, NO_BANS)).toMatchObject(refusal('proof_invalid'))
  deployment.advance(901)
  expect(await runner.admit(presented, null, NO_BANS)).toMatchObject(refusal('certificate_expired'))
  deployment.advance(360)
  expect(await runner.renew(presented, certificate('second'), NO_BANS)).toMatchObject(refusal('renewal_window'))
})

test('the fleet row is written anew at the next use where the database was away', async () => {
  const identity = await enrollByToken(muster)
  const { enrollmentId } = identity
  const runner = objectOf(enrollmentId)
  const DB = vi.spyOn(env.DB, 'prepare').mockImplementation(() => {
    throw new Error('D1_ERROR: away')
  })
  const second = await muster.renew(identity)
  await settled(enrollmentId)
  DB.mockRestore()
  const third = await muster.renew(second)
  await settled(enrollmentId)
  expect((await findEnrollment(db, enrollmentId))?.liveUntil).toBe(Date.parse(third.notAfter) / 1000)
  expect(await runner.status()).toMatchObject({ ended: null })
})

test('no certificate ends more than an hour later than the fleet row says', async () => {
  const identity = await enrollByToken(muster)
  const { enrollmentId } = identity
  // The row is written when the certificate is about to end.
  deployment.advance(899)
  await (await connect(muster, identity)).hello()
  let mine = await muster.renew(identity)
  for (let i = 0; i < 12; i++) {
    await settled(enrollmentId)
    const row = await findEnrollment(db, enrollmentId)
    expect(Date.parse(mine.notAfter) / 1000).toBeLessThanOrEqual((row?.liveUntil ?? 0) + 3600)
    deployment.advance(600)
    mine = await muster.renew(mine)
  }
})

test('a certificate of another tenant than the enrollment’s is refused, whoever signed it', async () => {
  const begun = start('token')
  const runner = objectOf(begun.enrollmentId)
  await runner.begin(begun, NO_BANS)
  const presented = presentedBy(begun, 'globex')
  const { result } = await runner.renew(presented, certificate('second'), NO_BANS)
  expect(result).toMatchObject({ ok: false, error: { reason: 'standing_lost' } })
})

test('a ticket opens one socket, soon, and a made-up one none', async () => {
  const begun = start('token')
  const runner = objectOf(begun.enrollmentId)
  await runner.begin(begun, NO_BANS)
  const presented = presentedBy(begun, 'acme')
  const ticketOf = async () => {
    const { result } = await runner.admit(presented, null, NO_BANS)
    return result.ok ? result.value.ticket : ''
  }
  const open = async (ticket: string) => {
    const { status, webSocket } = await runner.fetch(`https://runner/${ticket}`, { headers: { upgrade: 'websocket' } })
    webSocket?.accept()
    return status
  }
  const ticket = await ticketOf()
  expect([await open(ticket), await open(ticket), await open('x'), await open('')]).toEqual([101, 410, 410, 410])
  const late = await ticketOf()
  deployment.advance(11)
  expect(await open(late)).toBe(410)
  const gone = await ticketOf()
  await evictDurableObject(runner)
  expect(await open(gone)).toBe(410)
})
