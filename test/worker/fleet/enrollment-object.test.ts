// Tests the Durable Object of an enrollment: what it writes, when its alarm runs, what it deletes.
import { env, evictDurableObject, runDurableObjectAlarm, runInDurableObject } from 'cloudflare:test'
import { expect, test, vi } from 'vitest'
import { epochSeconds, toEpochSeconds } from '../../../src/protocol/time.ts'
import { type BanList, NO_BANS } from '../../../src/trust/bans.ts'
import type { SignedLeaf } from '../../../src/worker/fleet/lineage.ts'
import type { PresentedLeaf } from '../../../src/worker/fleet/record.ts'
import { findEnrollment } from '../../../src/worker/store/enrollments.ts'
import { revokeToken } from '../../../src/worker/store/tokens.ts'
import { deployment } from '../../fakes/deployment.ts'
import { makeRequester } from '../../fakes/requester.ts'
import { recordEnrollment } from '../store/enrollment-rows.ts'
import { connect, db, enrollByToken, mint, reasonOf, settled, startMuster } from './runners-fixture.ts'

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
  const identity = await muster.renew(await enrollByToken(muster))
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
  expect(await alarmOf(enrollmentId)).toBeNull()
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

const certificate = (serial: string): SignedLeaf => ({
  serial,
  publicKeyHash: `key of ${serial}`,
  spiffeId: 'spiffe://rootpilot/tenant/acme/runner',
  notBefore: epochSeconds(toEpochSeconds(deployment.clock()) - 60),
  notAfter: epochSeconds(toEpochSeconds(deployment.clock()) + 900),
  issuer: 'issuer',
  der: crypto.getRandomValues(new Uint8Array(640)),
})

/** An enrollment that has not begun, its object and its first certificate. */
async function recorded(changes: Parameters<typeof recordEnrollment>[1] = {}) {
  const first = certificate('first')
  const { der: _, spiffeId: __, ...content } = first
  const enrollmentId = await recordEnrollment(toEpochSeconds(deployment.clock()), { ...content, ...changes })
  const subject = { enrollmentId, tenant: 'acme', mode: 'bootstrap-token', source: '' } as const
  const presented: PresentedLeaf = { ...first, ...subject }
  return { enrollmentId, presented, runner: objectOf(enrollmentId) }
}

const refusal = (reason: string) => ({ ok: false, error: { reason } })

test('an enrollment has no object until its first renewal or connection', async () => {
  const { runner, presented, enrollmentId } = await recorded()
  expect(await runner.status()).toBeNull()
  expect(await alarmOf(enrollmentId)).toBeNull()
  expect(await writesDuring(enrollmentId, () => runner.admit(presented, null, NO_BANS))).toEqual({ rows: 1, alarms: 1 })
  expect((await findEnrollment(db, enrollmentId))?.begunAt).toBe(toEpochSeconds(deployment.clock()))
})

test('only the first certificate begins an enrollment, by its serial and its key', async () => {
  const { runner, presented } = await recorded()
  for (const other of [{ serial: 'other' }, { publicKeyHash: 'other' }]) {
    const answer = await runner.renew({ ...presented, ...other }, certificate('second'), NO_BANS)
    expect(answer.refusal).toMatchObject({ reason: 'lineage_missing' })
  }
  expect(await runner.status()).toBeNull()
  expect((await runner.renew(presented, certificate('second'), NO_BANS)).refusal).toBeNull()
})

test.each([
  ['has ended', { endedAt: epochSeconds(1) }, 'enrollment_ended'],
  ['is not on record', null, 'lineage_missing'],
] as const)('an enrollment that %s does not begin', async (_, changes, reason) => {
  const { presented, enrollmentId, runner } = await recorded(changes ?? {})
  if (changes === null) await env.DB.prepare('DELETE FROM enrollment WHERE id = ?').bind(enrollmentId).run()
  for (const list of [NO_BANS, NO_BANS]) {
    expect((await runner.renew(presented, certificate('second'), list)).refusal).toMatchObject({ reason })
    expect((await runner.admit(presented, null, list)).result).toMatchObject(refusal(reason))
    expect(await runner.repeat({ enrollmentId, tenant: 'acme' }, certificate('first'), list)).toMatchObject(
      refusal(reason),
    )
  }
  expect(await runner.status()).toBeNull()
  expect((await findEnrollment(db, enrollmentId))?.begunAt ?? null).toBeNull()
})

test('an enrollment whose token was revoked does not begin, however old the list of the caller is', async () => {
  const { token, id } = await mint()
  const { certificate: pem, enrollmentId, keys } = await muster.enroll({ mode: 'bootstrap-token', token })
  // The isolate's list is from before.
  await muster.renew(await enrollByToken(muster))
  await revokeToken(db, id, toEpochSeconds(deployment.clock()))
  expect(await reasonOf(await muster.renew({ certificate: pem, keys }))).toBe('token_revoked')
  expect(await objectOf(enrollmentId).status()).toBeNull()
})

test('twenty first uses at once begin one enrollment, and the last one that is granted counts', async () => {
  const { presented, runner } = await recorded()
  const candidates = Array.from({ length: 20 }, (_, i) => certificate(`at once ${i}`))
  const answers = await Promise.all(candidates.map((one) => runner.renew(presented, one, NO_BANS)))
  // While the tip is unused its parent may renew again: each is granted in turn.
  expect(answers.map(({ refusal }) => refusal)).toEqual(Array(20).fill(null))
  expect((await runner.status())?.serial).toBe('at once 19')
})

test('an enrollment is asked for again until it has gone on', async () => {
  const { presented, enrollmentId, runner } = await recorded()
  const first = certificate('first')
  await runner.admit(presented, null, NO_BANS)
  const again = await runner.repeat({ enrollmentId, tenant: 'acme' }, { ...first, serial: 'another' }, NO_BANS)
  expect(again).toMatchObject({ ok: true, value: { serial: 'first', der: presented.der } })
  await runner.renew(presented, certificate('second'), NO_BANS)
  expect(await runner.repeat({ enrollmentId, tenant: 'acme' }, first, NO_BANS)).toMatchObject(
    refusal('token_retry_over'),
  )
})

test('an enrollment that was banned meanwhile gets nothing, and its first use is no clone', async () => {
  const { presented, enrollmentId, runner } = await recorded()
  const at = toEpochSeconds(deployment.clock())
  const list: BanList = { at, bans: [{ kind: 'enrollment', value: enrollmentId }], revokedTokens: [] }
  expect(await runner.repeat({ enrollmentId, tenant: 'acme' }, certificate('first'), list)).toMatchObject(
    refusal('banned'),
  )
  expect((await runner.renew(presented, certificate('second'), list)).refusal).toMatchObject({ reason: 'banned' })
  expect(await runner.status()).toBeNull()
  const lifted = { ...NO_BANS, at: epochSeconds(at + 1) }
  expect((await runner.renew(presented, certificate('second'), lifted)).refusal).toBeNull()
})

test('a drain that is asked for before the first connection is kept for it', async () => {
  const { enrollmentId, ...identity } = await enrollByToken(muster)
  await objectOf(enrollmentId).drain({ enrollmentId, tenant: 'acme' })
  const tunnel = await connect(muster, identity)
  await tunnel.hello()
  expect(JSON.parse(await tunnel.message())).toMatchObject({ type: 'drain' })
})

test('a drain of an enrollment that is over begins nothing, and says of no runner that it was seen', async () => {
  const { enrollmentId } = await enrollByToken(muster)
  const row = await findEnrollment(db, enrollmentId)
  deployment.advance(3600)
  await objectOf(enrollmentId).drain({ enrollmentId, tenant: 'acme' })
  expect(await objectOf(enrollmentId).status()).toBeNull()
  await runDurableObjectAlarm(objectOf(enrollmentId))
  expect((await findEnrollment(db, enrollmentId))?.seenAt).toBe(row?.seenAt)
})

test('a revocation that the cron knows holds for a first use that asked D1 before it', async () => {
  const { token, id } = await mint()
  const { enrollmentId, ...identity } = await muster.enroll({ mode: 'bootstrap-token', token })
  await muster.renew(await enrollByToken(muster))
  const { promise: answered, resolve: answer } = Promise.withResolvers<void>()
  const { promise: asked, resolve: ask } = Promise.withResolvers<void>()
  const batch = env.DB.batch.bind(env.DB)
  const held = vi.spyOn(env.DB, 'batch').mockImplementation(async (statements) => {
    const results = await batch(statements)
    ask()
    await answered
    return results
  })
  const using = muster.renew(identity)
  await asked
  held.mockRestore()
  deployment.advance(1)
  await revokeToken(db, id, toEpochSeconds(deployment.clock()))
  await muster.cron()
  answer()
  expect(await reasonOf(await using)).toBe('token_revoked')
  expect(await reasonOf(await muster.renew(identity))).toBe('enrollment_ended')
})

test('a certificate and a challenge end by the clock of the object, which forgets them by it', async () => {
  const { presented, runner } = await recorded()
  const challenge = { challenge: 'c', expiresAt: epochSeconds(toEpochSeconds(deployment.clock()) - 1) }
  expect((await runner.admit(presented, challenge, NO_BANS)).result).toMatchObject(refusal('proof_invalid'))
  deployment.advance(901)
  expect((await runner.admit(presented, null, NO_BANS)).result).toMatchObject(refusal('certificate_expired'))
  deployment.advance(360)
  const late = await runner.renew(presented, certificate('second'), NO_BANS)
  expect(late.refusal).toMatchObject({ reason: 'renewal_window' })
})

test('the fleet row is written anew at the next use where the database was away', async () => {
  const identity = await enrollByToken(muster)
  const { enrollmentId } = identity
  const runner = objectOf(enrollmentId)
  await connect(muster, identity)
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
  const { runner, ...mine } = await recorded()
  const presented = { ...mine.presented, tenant: 'globex' }
  const answer = await runner.renew(presented, certificate('second'), NO_BANS)
  expect(answer.refusal).toMatchObject({ reason: 'standing_lost' })
})

test('a ticket opens one socket, soon, and a made-up one none', async () => {
  const { presented, runner } = await recorded()
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
