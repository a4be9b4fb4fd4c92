// Tests the transactions that reserve an enrollment: who wins, what is refused, and what a ban stops.
import { env } from 'cloudflare:test'
import { describe, expect, test } from 'vitest'
import { addSeconds, epochSeconds, minutes, seconds, toEpochMilliseconds } from '../../../src/protocol/time.ts'
import type { TokenKind } from '../../../src/protocol/tokens.ts'
import { uuidv7 } from '../../../src/protocol/uuid.ts'
import { type Ban, findBan, namesOf } from '../../../src/trust/bans.ts'
import { deleteBan, insertBan } from '../../../src/worker/store/bans.ts'
import { updateEnded } from '../../../src/worker/store/enrollments.ts'
import { type Application, makeReservations, type PlatformIdentity } from '../../../src/worker/store/reservations.ts'
import { insertToken, revokeToken } from '../../../src/worker/store/tokens.ts'
import { clusterWith, trustWith } from '../../fakes/trust.ts'
import { openDatabase } from './open-database.ts'

const db = openDatabase(env.DB)
const NOW = epochSeconds(1_900_000_000)
const reservations = makeReservations(env.DB, trustWith({ tenants: ['default', 'acme', 'globex'] }))

const application = (publicKeyHash: string, enrolledAt = NOW): Application => ({
  enrollmentId: uuidv7(toEpochMilliseconds(enrolledAt)),
  instanceId: null,
  enrolledAt,
  publicKeyHash,
  serial: crypto.randomUUID(),
  trustDomain: 'rootpilot',
  notBefore: enrolledAt,
  notAfter: addSeconds(enrolledAt, minutes(15)),
  issuer: 'k',
})

async function minted(kind: TokenKind, changes: Partial<Parameters<typeof insertToken>[1]> = {}) {
  const hash = crypto.randomUUID()
  const id = uuidv7(toEpochMilliseconds(NOW))
  const runnerId = kind === 'runner' ? 'build-7' : null
  const expiresAt = addSeconds(NOW, seconds(3600))
  await insertToken(db, { hash, id, kind, tenant: 'acme', runnerId, createdAt: NOW, expiresAt, ...changes })
  return { hash, id }
}

const byToken = async (kind: TokenKind, hash: string, key: string, at = NOW) =>
  (await reservations.byToken(kind, hash, application(key, at)))?.enrollment?.enrollmentId ?? null

describe('one bootstrap token', () => {
  test('of 50 uses at once with 50 keys makes one enrollment', async () => {
    const { hash } = await minted('bootstrap')
    const wanted = Array.from({ length: 50 }, (_, i) => application(`race-${i}`))
    const got = await Promise.all(wanted.map((one) => reservations.byToken('bootstrap', hash, one)))
    const winners = wanted.filter((one, i) => got[i]?.enrollment?.enrollmentId === one.enrollmentId)
    expect(winners).toHaveLength(1)
    expect(new Set(got.map((one) => one?.token.usedBy))).toEqual(new Set([winners[0]?.publicKeyHash]))
    const made = await env.DB.prepare(
      "SELECT count(*) AS n FROM enrollment WHERE public_key_hash LIKE 'race-%'",
    ).first()
    expect(made?.n).toBe(1)
  })

  test('of 20 uses at once with one key makes one enrollment, which all get', async () => {
    const { hash } = await minted('bootstrap')
    const all = await Promise.all(Array.from({ length: 20 }, () => byToken('bootstrap', hash, 'one-key')))
    expect(new Set(all).size).toBe(1)
    expect(all).not.toContain(null)
  })

  test('is good until its second, and not at it', async () => {
    const end = addSeconds(NOW, seconds(1))
    const { hash } = await minted('bootstrap', { expiresAt: end })
    expect(await byToken('bootstrap', hash, 'too late', end)).toBeNull()
    expect(await byToken('bootstrap', hash, 'in time')).not.toBeNull()
  })
})

const refused: [string, Parameters<typeof minted>[1], Ban | null][] = [
  ['expired', { expiresAt: NOW }, null],
  ['revoked', { revokedAt: NOW }, null],
  ['of a tenant that is gone', { tenant: 'gone' }, null],
  ['of a banned tenant', { tenant: 'globex' }, { kind: 'tenant', value: 'globex' }],
]
test.each((['bootstrap', 'runner'] as const).flatMap((kind) => refused.map((one) => [kind, ...one] as const)))(
  'a %s token that is %s makes no enrollment, and is not consumed',
  async (kind, _, changes, ban) => {
    const { hash } = await minted(kind, changes)
    if (ban !== null) await insertBan(db, { ...ban, note: null, createdAt: NOW })
    const found = await reservations.byToken(kind, hash, application(crypto.randomUUID()))
    if (ban !== null) await deleteBan(db, ban)
    expect(found).toMatchObject({ enrollment: null, banned: ban !== null, token: { usedAt: null } })
  },
)

test.each([
  ['bootstrap', 'runner'],
  ['runner', 'bootstrap'],
] as const)('a %s token makes no enrollment as a %s token', async (kind, other) => {
  const { hash } = await minted(kind)
  expect(await byToken(other, hash, crypto.randomUUID())).toBeNull()
  expect(await byToken(kind, hash, crypto.randomUUID())).not.toBeNull()
})

test.each(['token', 'runner-id'] as const)(
  'a ban of its %s stops a runner token, and ends with the ban',
  async (kind) => {
    const { hash, id } = await minted('runner', { runnerId: 'banned-7' })
    const ban: Ban = { kind, value: kind === 'token' ? id : 'banned-7' }
    await insertBan(db, { ...ban, note: null, createdAt: NOW })
    expect(await byToken('runner', hash, 'k1')).toBeNull()
    await deleteBan(db, ban)
    expect(await byToken('runner', hash, 'k1')).not.toBeNull()
  },
)

test('a runner token serves one key for 10 minutes with one enrollment, and another key with another', async () => {
  const { hash, id } = await minted('runner')
  const first = await byToken('runner', hash, 'rt-1')
  expect(await byToken('runner', hash, 'rt-1', addSeconds(NOW, minutes(10)))).toBe(first)
  const others = [
    await byToken('runner', hash, 'rt-2'),
    await byToken('runner', hash, 'rt-1', addSeconds(NOW, seconds(601))),
  ]
  expect(new Set([first, ...others]).size).toBe(3)
  await revokeToken(db, id, NOW)
  expect(await reservations.byToken('runner', hash, application('rt-3'))).toMatchObject({ enrollment: null })
})

function pod(changes: Partial<PlatformIdentity> = {}): PlatformIdentity {
  const identity = 'system:serviceaccount:runners:runner'
  const named = { mode: 'kubernetes', source: 'prod', tenant: 'acme', identity, runnerId: null } as const
  return { ...named, claims: '{}', bannedBy: '[]', ...changes }
}
const byEvidence = async (identity: PlatformIdentity, key: string, at = NOW) =>
  (await reservations.byEvidence(identity, application(key, at))).enrollment?.enrollmentId

test('the same evidence and key within 10 minutes is the same enrollment, and a new one after', async () => {
  const first = await byEvidence(pod(), 'same')
  expect(await byEvidence(pod(), 'same', addSeconds(NOW, minutes(10)))).toBe(first)
  expect(await byEvidence(pod(), 'same', addSeconds(NOW, seconds(601)))).not.toBe(first)
  await updateEnded(db, [first ?? ''], 'clone_suspected', NOW)
  expect(await byEvidence(pod(), 'same')).not.toBe(first)
})

test.each<[string, Partial<PlatformIdentity>]>([
  ['identity', { identity: 'other' }],
  ['tenant', { tenant: 'other' }],
  ['source', { source: 'other' }],
  ['runner ID', { runnerId: 'other' }],
  ['mode', { mode: 'aws-sts' }],
])('the same key with another %s is another enrollment', async (_, change) => {
  const key = crypto.randomUUID()
  expect(await byEvidence(pod(change), key)).not.toBe(await byEvidence(pod(), key))
})

const subject = {
  enrollmentId: null,
  runnerId: 'prod/node-1',
  identity: 'arn:aws:sts::111122223333:assumed-role/ci/i-1',
  tokenId: null,
  tenant: 'acme',
}
test.each<Ban>([
  { kind: 'tenant', value: 'acme' },
  { kind: 'tenant', value: 'globex' },
  { kind: 'runner-id', value: 'prod/node-1' },
  { kind: 'runner-id', value: 'acme' },
  { kind: 'identity', value: 'arn:aws:sts::111122223333:assumed-role/ci' },
  { kind: 'identity', value: 'arn:aws:iam::111122223333:root' },
  { kind: 'identity', value: 'arn:aws:iam::444455556666:root' },
  { kind: 'token', value: 'acme' },
])('a ban of $kind $value stops whom findBan names', async (ban) => {
  await insertBan(db, { ...ban, note: null, createdAt: NOW })
  const found = await reservations.byEvidence(
    pod({ bannedBy: JSON.stringify(namesOf(subject)) }),
    application(crypto.randomUUID()),
  )
  await deleteBan(db, ban)
  const named = findBan({ at: NOW, bans: [ban], revokedTokens: [] }, subject) !== null
  expect([found.banned, found.enrollment === null]).toEqual([named, named])
})

test('a ban of the enrollment itself is met by its next try', async () => {
  const value = (await byEvidence(pod(), 'retried')) ?? ''
  await insertBan(db, { kind: 'enrollment', value, note: null, createdAt: NOW })
  expect(await reservations.byEvidence(pod(), application('retried'))).toMatchObject({ banned: true })
})

test('while a minted runner ID is a reserved one nobody enrolls, where there is a cluster', async () => {
  const { id, hash } = await minted('runner', { runnerId: 'prod/node-1', expiresAt: null })
  const withCluster = makeReservations(env.DB, trustWith({ clusters: [clusterWith()] }))
  const token = await minted('bootstrap')
  const refusals = [
    await withCluster.byEvidence(pod(), application('slashed')),
    await withCluster.byToken('bootstrap', token.hash, application('slashed')),
    await withCluster.byToken('runner', hash, application('slashed')),
  ]
  for (const one of refusals) expect(one).toMatchObject({ reservedRunnerId: 'prod/node-1', enrollment: null })
  expect(await byEvidence(pod(), 'no cluster')).toBeTruthy()
  await revokeToken(db, id, NOW)
  expect(await withCluster.byToken('bootstrap', token.hash, application('slashed'))).toMatchObject({
    reservedRunnerId: null,
    token: { usedBy: 'slashed' },
  })
})

describe('others of the runner ID', () => {
  test('are known by the end of their newest certificate, unless it ended an hour ago', async () => {
    const one = (runnerId: string, at = NOW) =>
      reservations.byEvidence(pod({ runnerId }), application(crypto.randomUUID(), at))
    expect((await one('shared')).enrollment?.sharedUntil).toBeNull()
    expect((await one('shared')).enrollment?.sharedUntil).toBe(NOW + 900)
    expect((await one('shared', addSeconds(NOW, seconds(900 + 3960)))).enrollment?.sharedUntil).toBe(NOW + 900)
    expect((await one('alone')).enrollment?.sharedUntil).toBeNull()
  })
})
