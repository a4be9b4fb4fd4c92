// Tests that an enrollment and its first use survive a fault of D1 at each of their transactions: before it, or after it,
// when only the answer is lost. The faults are counted, so that a new one is covered by itself.
import 'reflect-metadata'
import { env, runInDurableObject } from 'cloudflare:test'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { enrollBody, makeRequester } from '../../fakes/requester.ts'
import {
  enrollByToken,
  headerOf,
  type Identity,
  mint,
  requestUpgrade,
  settled,
  startMuster,
  Tunnel,
} from '../fleet/runners-fixture.ts'

const { muster } = await startMuster()
afterEach(() => {
  vi.restoreAllMocks()
})

const MOMENTS = ['before', 'after'] as const
type Moment = (typeof MOMENTS)[number]

/** Runs `work` while the transaction of this number fails: `after` it was carried out, or before. */
async function failing<T>(
  number: number,
  moment: Moment,
  work: () => Promise<T>,
): Promise<{ result: T; met: boolean }> {
  let calls = 0
  const batch = env.DB.batch.bind(env.DB)
  vi.spyOn(env.DB, 'batch').mockImplementation(async (statements) => {
    if (++calls !== number) return batch(statements)
    if (moment === 'after') await batch(statements)
    throw new Error('D1_ERROR: away')
  })
  const result = await work()
  vi.restoreAllMocks()
  return { result, met: calls >= number }
}

/** Runs `attempt` with the first transaction failing, then with the second, to the last one; gives their number. */
async function atEach(attempt: (number: number) => Promise<boolean>): Promise<number> {
  let number = 1
  while (await attempt(number)) number++
  return number - 1
}

const enrollmentsOf = async (tokenId: string) =>
  (await env.DB.prepare('SELECT count(*) AS n FROM enrollment WHERE token_id = ?').bind(tokenId).first())?.n

describe.each(MOMENTS)('where D1 fails %s a transaction,', (moment) => {
  test.each([
    ['bootstrap', 401],
    ['runner', 200],
  ] as const)('a %s token and its key get one enrollment all the same, another key none of it', async (kind, other) => {
    const transactions = await atEach(async (number) => {
      const { token, id } = await mint(kind, kind === 'runner' ? 'build-7' : null)
      const bodyFor = async () => enrollBody(await makeRequester(), { mode: `${kind}-token`, token })
      const body = await bodyFor()
      const { result: tried, met } = await failing(number, moment, () => muster.post('/api/enroll', body))
      expect([200, 503]).toContain(tried.status)
      const again = await muster.post('/api/enroll', body)
      expect(again.status).toBe(200)
      expect(await enrollmentsOf(id)).toBe(1)
      if (tried.status === 200) expect(again.json.enrollmentId).toBe(tried.json.enrollmentId)
      const stranger = await muster.post('/api/enroll', await bodyFor())
      expect(stranger.status).toBe(other)
      expect(stranger.json.enrollmentId).not.toBe(again.json.enrollmentId)
      return met
    })
    // The reservation, and what is written after the answer.
    expect(transactions).toBe(2)
  })

  test('a first renewal is granted at its next try, and a clone is found as ever', async () => {
    const transactions = await atEach(async (number) => {
      const first = await enrollByToken(muster)
      const asking = await makeRequester()
      const { result: tried, met } = await failing(number, moment, () => muster.renew(first, asking))
      expect([200, 503]).toContain(tried.status)
      const granted = await muster.renew(first, asking)
      expect(granted.status).toBe(200)
      if (tried.status === 200) expect(granted.certificate).toBe(tried.certificate)
      const next = await muster.renew(granted)
      expect(next.status).toBe(200)
      expect((await muster.renew(first)).status).toBe(401)
      expect((await muster.renew(next)).json.code).toBe('attestation_invalid')
      return met
    })
    expect(transactions).toBe(1)
  })

  test('a first connection is opened at its next try', async () => {
    const transactions = await atEach(async (number) => {
      const first = await enrollByToken(muster)
      const upgrade = () => requestUpgrade(muster, { tls: headerOf(first) })
      const { result: tried, met } = await failing(number, moment, upgrade)
      if (!(tried instanceof Tunnel)) expect(tried.status).toBe(503)
      const opened = tried instanceof Tunnel ? tried : await upgrade()
      expect(opened).toBeInstanceOf(Tunnel)
      if (opened instanceof Tunnel) expect(await opened.hello()).toMatchObject({ type: 'ready' })
      await settled(first.enrollmentId)
      return met
    })
    expect(transactions).toBe(1)
  })
})

test('what D1 says of a fault is in the log, for an enrollment, a first use, and events of either outcome', async () => {
  const first = await enrollByToken(muster)
  const { token } = await mint()
  const body = enrollBody(await makeRequester(), { mode: 'bootstrap-token', token })
  const lines: string[] = []
  for (const [number, work] of [
    [1, () => muster.post('/api/enroll', body)],
    [1, () => muster.renew(first)],
    [2, () => muster.post('/api/enroll', body)],
  ] as const) {
    await failing(number, 'before', () => {
      vi.spyOn(console, 'error').mockImplementation((line) => lines.push(String(line)))
      return work()
    })
  }
  vi.spyOn(console, 'error').mockImplementation((line) => lines.push(String(line)))
  vi.spyOn(env.DB, 'prepare').mockImplementation(() => {
    throw new Error('D1_ERROR: away')
  })
  await muster.post('/api/enroll', {})
  expect(lines.filter((line) => line.includes('D1_ERROR: away'))).toHaveLength(4)
})

test('of a first renewal that its object could not store nothing is granted, and the next try is', async () => {
  const first = await enrollByToken(muster)
  const put = await runInDurableObject(env.ENROLLMENTS.getByName(first.enrollmentId), (_, { storage }) =>
    vi.spyOn(storage.kv, 'put').mockImplementation(() => {
      throw new Error('storage is away')
    }),
  )
  const tried = await muster.renew(first)
  expect(tried.status).toBeGreaterThanOrEqual(500)
  put.mockRestore()
  const identity: Identity = await muster.renew(first)
  expect((await muster.renew(identity)).status).toBe(200)
})
