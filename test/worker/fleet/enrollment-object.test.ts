// Tests the Durable Object of an enrollment: what it writes, when its alarm runs, what it deletes.
import { env, evictDurableObject, runDurableObjectAlarm, runInDurableObject } from 'cloudflare:test'
import { expect, test, vi } from 'vitest'
import type { Leaf, LeafContent } from '../../../src/protocol/leaf.ts'
import { epochSeconds, toEpochSeconds } from '../../../src/protocol/time.ts'
import { uuidv7 } from '../../../src/protocol/uuid.ts'
import { type BanList, NO_BANS } from '../../../src/trust/bans.ts'
import type { EnrollmentStart } from '../../../src/worker/fleet/record.ts'
import { deployment } from '../../fakes/deployment.ts'
import { makeRequester } from '../../fakes/requester.ts'
import { connect, enrollByToken, serialOf, startMuster } from './runners-fixture.ts'

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

test('twenty copies of one renewal at once get one certificate', async () => {
  const identity = await enrollByToken(muster)
  const asking = await makeRequester()
  const answers = await Promise.all(Array.from({ length: 20 }, () => muster.renew(identity, asking)))
  expect(new Set(answers.map(serialOf)).size).toBe(1)
})

test('the alarm comes with the end of a connection, then with the clean-up', async () => {
  const identity = await enrollByToken(muster)
  const { enrollmentId } = identity
  const from = toEpochSeconds(deployment.clock())
  expect(await alarmOf(enrollmentId)).toBe((from + 900 + 360 + 1) * 1000)
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

const certificate = (serial: string): LeafContent => ({
  serial,
  publicKeyHash: `key of ${serial}`,
  spiffeId: 'spiffe://rootpilot/tenant/acme/runner',
  notBefore: epochSeconds(toEpochSeconds(deployment.clock()) - 60),
  notAfter: epochSeconds(toEpochSeconds(deployment.clock()) + 900),
  issuer: 'issuer',
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
  expect(await runner.begin(begun, NO_BANS)).toEqual({ ok: true, value: null })
  expect(await runner.begin(begun, NO_BANS)).toEqual({ ok: true, value: null })
  await runner.renew(presented, certificate('second'), NO_BANS)
  expect(await runner.begin(begun, NO_BANS)).toMatchObject({ ok: false, error: { reason: 'token_retry_over' } })
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
