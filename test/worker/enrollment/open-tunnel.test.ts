// Tests GET /api/tunnel: who may open a tunnel, its frames, and when it is closed.
import 'reflect-metadata'
import { env, evictDurableObject, runDurableObjectAlarm } from 'cloudflare:test'
import { ExtendedKeyUsageExtension } from '@peculiar/x509'
import { beforeEach, describe, expect, test, vi } from 'vitest'
import { encodeBase64url } from '../../../src/protocol/bytes.ts'
import { minutes } from '../../../src/protocol/time.ts'
import { deleteBan, insertBan, listBans, requestDrain } from '../../../src/worker/store/bans.ts'
import { findEnrollment } from '../../../src/worker/store/enrollments.ts'
import { findEvent } from '../../../src/worker/store/events.ts'
import { revokeToken } from '../../../src/worker/store/tokens.ts'
import { forgeLeaf, type Issuer, type LeafOptions, pem } from '../../fakes/ca-forge.ts'
import { deployment } from '../../fakes/deployment.ts'
import {
  type Answered,
  at,
  connect,
  db,
  enrollByToken,
  headerOf,
  type Identity,
  mint,
  now,
  ORIGIN,
  proofHeaders,
  provisionedBy,
  requestUpgrade,
  startMuster,
  Tunnel,
  type UpgradeRequest,
} from '../fleet/runners-fixture.ts'

const { issuer, muster } = await startMuster()

beforeEach(() => deployment.setTrust({}))

const objectOf = (enrollmentId: string) => env.ENROLLMENTS.getByName(enrollmentId)

async function problem(request: UpgradeRequest): Promise<{ status: number; code: unknown; reason: unknown }> {
  const answer = await requestUpgrade(muster, request)
  if (answer instanceof Tunnel) throw new Error('a tunnel was opened')
  const { status, json } = answer
  return { status, code: json.code, reason: (await findEvent(db, String(json.requestId)))?.reason }
}

const provisioned = (options: LeafOptions = {}) => provisionedBy(issuer, options)

describe('a tunnel is opened', () => {
  test('by a certificate in TLS, whatever the edge thought of it', async () => {
    const { token } = await mint('runner', 'build-7')
    const identity = await muster.enroll({ mode: 'runner-token', token })
    const tunnel = await connect(muster, identity)
    expect(await tunnel.hello('host-1', 'muster/1.2.3')).toEqual({
      type: 'ready',
      enrollmentId: identity.enrollmentId,
      spiffeId: 'spiffe://rootpilot/tenant/acme/runner',
      runnerId: 'build-7',
      notAfter: identity.notAfter,
    })
    const seen = { connected: true, instanceId: 'host-1', agent: 'muster/1.2.3' }
    expect(await objectOf(identity.enrollmentId).status()).toMatchObject(seen)
    expect(await findEnrollment(db, identity.enrollmentId)).toMatchObject({ ...seen, seenAt: now() })
  })

  test('by a signed challenge', async () => {
    const identity = await enrollByToken(muster)
    const tunnel = await requestUpgrade(muster, { headers: await proofHeaders(muster, identity) })
    expect(tunnel).toBeInstanceOf(Tunnel)
  })

  test('by both, when they are of one certificate', async () => {
    const identity = await enrollByToken(muster)
    const tunnel = await requestUpgrade(muster, {
      tls: headerOf(identity),
      headers: await proofHeaders(muster, identity),
    })
    expect(tunnel).toBeInstanceOf(Tunnel)
  })

  test('by a provisioned certificate, which starts its lineage', async () => {
    const identity = await provisioned()
    expect(await (await connect(muster, identity)).hello()).toMatchObject({ type: 'ready', runnerId: null })
    const renewed = await muster.renew(identity)
    expect(await (await connect(muster, renewed)).hello()).toMatchObject({ type: 'ready' })
  })

  test('through the last second of the certificate, and no longer', async () => {
    const identity = await enrollByToken(muster)
    deployment.advance(900)
    expect(await requestUpgrade(muster, { tls: headerOf(identity) })).toBeInstanceOf(Tunnel)
    deployment.advance(1)
    expect(await problem({ tls: headerOf(identity) })).toMatchObject({ status: 401, reason: 'certificate_expired' })
  })
})

describe('nobody opens one', () => {
  test.each<[string, () => Promise<UpgradeRequest>, number, string]>([
    ['without any certificate', async () => ({}), 401, 'certificate_missing'],
    [
      'with a Client-Cert of his own words',
      async () => ({ headers: { 'client-cert': headerOf(await enrollByToken(muster)) } }),
      401,
      'certificate_missing',
    ],
    [
      'with Client-Cert-Chain beside it',
      async () => ({
        headers: {
          'client-cert': headerOf(await enrollByToken(muster)),
          'client-cert-chain': headerOf(await enrollByToken(muster)),
        },
      }),
      401,
      'certificate_missing',
    ],
    [
      'with a proof and no certificate',
      async () => {
        const { 'client-cert': _, ...headers } = await proofHeaders(muster, await enrollByToken(muster))
        return { headers }
      },
      401,
      'proof_invalid',
    ],
    [
      'with somebody else’s proof',
      async () => ({
        headers: {
          ...(await proofHeaders(muster, await enrollByToken(muster))),
          'client-cert': headerOf(await enrollByToken(muster)),
        },
      }),
      401,
      'proof_invalid',
    ],
    [
      'with a proof for another host',
      async () => ({
        headers: await proofHeaders(muster, await enrollByToken(muster), undefined, 'other.example.com'),
      }),
      401,
      'proof_invalid',
    ],
    [
      'with a challenge of his own making',
      async () => ({
        headers: await proofHeaders(
          muster,
          await enrollByToken(muster),
          encodeBase64url(crypto.getRandomValues(new Uint8Array(52))),
        ),
      }),
      401,
      'proof_invalid',
    ],
    [
      'with a challenge of odd form',
      async () => ({ headers: await proofHeaders(muster, await enrollByToken(muster), 'x') }),
      401,
      'proof_invalid',
    ],
    [
      'with a proof of odd form',
      async () => ({ tls: headerOf(await enrollByToken(muster)), headers: { 'muster-proof': 'x' } }),
      401,
      'proof_invalid',
    ],
    [
      'with two proofs that differ',
      async () => ({
        tls: headerOf(await enrollByToken(muster)),
        headers: await proofHeaders(muster, await enrollByToken(muster)),
      }),
      400,
      'proofs_differ',
    ],
    [
      'in early data',
      async () => ({ tls: headerOf(await enrollByToken(muster)), headers: { 'early-data': '1' } }),
      400,
      'early_data',
    ],
    ['with a certificate that the edge could not read', async () => ({ tls: ':!:' }), 401, 'certificate_invalid'],
    [
      'with the server-only usage',
      async () => ({
        tls: headerOf(await provisioned({ extendedKeyUsage: new ExtendedKeyUsageExtension(['1.3.6.1.5.5.7.3.1']) })),
      }),
      401,
      'certificate_invalid',
    ],
    [
      'of another trust domain',
      async () => ({ tls: headerOf(await provisioned({ uris: ['spiffe://elsewhere/tenant/acme/runner'] })) }),
      401,
      'certificate_invalid',
    ],
    [
      'by a certificate signed by a leaf',
      async () => {
        const leaf = await provisioned()
        const { keys, der } = await forgeLeaf({ ...issuer, keys: leaf.keys } as Issuer, {
          notBefore: at(-60),
          notAfter: at(900),
        })
        return { tls: headerOf({ keys, certificate: pem('CERTIFICATE', der) } as Identity) }
      },
      401,
      'certificate_invalid',
    ],
    [
      'in the grace that renewals have',
      async () => ({ tls: headerOf(await provisioned({ notAfter: at(-1) })) }),
      401,
      'certificate_expired',
    ],
    [
      'before the certificate begins',
      async () => ({ tls: headerOf(await provisioned({ notBefore: at(61) })) }),
      401,
      'certificate_expired',
    ],
    [
      'in clear',
      async () => ({ tls: headerOf(await enrollByToken(muster)), url: 'http://muster.example.com/api/tunnel' }),
      400,
      'https_only',
    ],
  ])('%s', async (_, make, status, reason) => {
    expect(await problem(await make())).toMatchObject({ status, reason })
  })

  test('without an upgrade', async () => {
    const response = await muster.fetch(new Request(`${ORIGIN}/api/tunnel`))
    expect([response.status, response.headers.get('content-type')]).toEqual([400, 'application/problem+json'])
  })

  test('twice with one challenge, even after the object slept', async () => {
    const identity = await enrollByToken(muster)
    const headers = await proofHeaders(muster, identity)
    expect(await requestUpgrade(muster, { headers })).toBeInstanceOf(Tunnel)
    expect(await problem({ headers })).toMatchObject({ reason: 'proof_invalid' })
    await evictDurableObject(objectOf(identity.enrollmentId))
    expect(await problem({ headers })).toMatchObject({ reason: 'proof_invalid' })
  })

  test('with a challenge that was used in its last second, nor in the minute after', async () => {
    const identity = await enrollByToken(muster)
    const headers = await proofHeaders(muster, identity)
    deployment.advance(30)
    expect(await requestUpgrade(muster, { headers })).toBeInstanceOf(Tunnel)
    // Others are remembered meanwhile, and this clock may be set back.
    for (const seconds of [0, 1, 59, -60, 60]) {
      deployment.advance(seconds)
      await requestUpgrade(muster, { headers: await proofHeaders(muster, identity) })
      expect(await problem({ headers })).toMatchObject({ reason: 'proof_invalid' })
    }
  })

  test('twice with one challenge, whatever became of the first time', async () => {
    const refused = await enrollByToken(muster)
    const headers = await proofHeaders(muster, refused)
    deployment.setTrust({ tenants: ['default'] })
    expect(await problem({ headers })).toMatchObject({ reason: 'standing_lost' })
    deployment.setTrust({})
    expect(await problem({ headers })).toMatchObject({ reason: 'proof_invalid' })

    const parent = await enrollByToken(muster)
    await connect(muster, await muster.renew(parent))
    const late = await proofHeaders(muster, parent)
    expect(await ((await requestUpgrade(muster, { headers: late })) as Tunnel).closed()).toBe(4002)
    expect(await problem({ headers: late })).toMatchObject({ reason: 'proof_invalid' })

    deployment.setTrust({ certificate: { lifetime: minutes(15), reattest: null, onClone: 'refuse' } })
    const stolen = await enrollByToken(muster)
    await muster.renew(await muster.renew(stolen))
    const clone = await proofHeaders(muster, stolen)
    expect(await problem({ headers: clone })).toMatchObject({ reason: 'clone_suspected' })
    expect(await problem({ headers: clone })).toMatchObject({ reason: 'proof_invalid' })
  })

  test('with an old certificate, however often that is tried: the runner’s own still opens one', async () => {
    deployment.setTrust({ certificate: { lifetime: minutes(15), reattest: null, onClone: 'refuse' } })
    const stolen = await enrollByToken(muster)
    const tip = await muster.renew(await muster.renew(stolen))
    const refusals = []
    for (let i = 0; i < 100; i++) refusals.push(await problem({ headers: await proofHeaders(muster, stolen) }))
    expect(refusals.every(({ status }) => status === 401)).toBe(true)
    expect(await requestUpgrade(muster, { headers: await proofHeaders(muster, tip) })).toBeInstanceOf(Tunnel)
  })

  test('with a challenge of half a minute ago', async () => {
    const identity = await enrollByToken(muster)
    const early = await proofHeaders(muster, identity)
    const late = await proofHeaders(muster, identity)
    deployment.advance(30)
    expect(await requestUpgrade(muster, { headers: early })).toBeInstanceOf(Tunnel)
    deployment.advance(1)
    expect(await problem({ headers: late })).toMatchObject({ reason: 'proof_invalid' })
  })

  test('after a ban, or the loss of its tenant or token', async () => {
    const { token, id } = await mint()
    const identity = await muster.enroll({ mode: 'bootstrap-token', token })
    deployment.setTrust({ tenants: ['default'] })
    expect(await problem({ tls: headerOf(identity) })).toMatchObject({ status: 401, reason: 'standing_lost' })
    deployment.setTrust({})
    const ban = { kind: 'identity', value: id } as const
    await insertBan(db, { ...ban, note: null, createdAt: now() })
    deployment.advance(31)
    expect(await problem({ tls: headerOf(identity) })).toMatchObject({ status: 403, code: 'banned' })
    await deleteBan(db, ban)
    await revokeToken(db, id, now())
    deployment.advance(31)
    expect(await problem({ tls: headerOf(identity) })).toMatchObject({ status: 401, reason: 'token_revoked' })
  })
})

describe('in a tunnel', () => {
  test.each([
    ['a hello of another version', '{"type":"hello","version":2,"instanceId":null}'],
    ['anything before the hello', '{"type":"drain"}'],
    ['no JSON', 'hello'],
    ['a binary frame', new ArrayBuffer(4)],
    ['a frame over 4 KiB', JSON.stringify({ type: 'hello', version: 1, instanceId: 'x'.repeat(4096) })],
  ])('%s is a protocol error', async (_, frame) => {
    const tunnel = await connect(muster, await enrollByToken(muster))
    tunnel.send(frame)
    expect(await tunnel.closed()).toBe(4000)
  })

  test('a ping before hello is a protocol error, also beside a tunnel whose pings are answered', async () => {
    const identity = await enrollByToken(muster)
    const first = await connect(muster, identity)
    await first.hello()
    const second = await connect(muster, identity)
    first.send('ping')
    expect(await first.message()).toBe('pong')
    second.send('ping')
    expect(await second.closed()).toBe(4000)
    first.send('ping')
    expect(await first.message()).toBe('pong')
  })

  test('a second hello is a protocol error', async () => {
    const tunnel = await connect(muster, await enrollByToken(muster))
    await tunnel.hello()
    tunnel.send('{"type":"hello","version":1,"instanceId":null}')
    expect(await tunnel.closed()).toBe(4000)
  })

  test('a ping is answered, and after a sleep all goes on', async () => {
    const identity = await enrollByToken(muster)
    const tunnel = await connect(muster, identity)
    await evictDurableObject(objectOf(identity.enrollmentId))
    expect(await tunnel.hello()).toMatchObject({ type: 'ready', enrollmentId: identity.enrollmentId })
    tunnel.send('ping')
    expect(await tunnel.message()).toBe('pong')
    await evictDurableObject(objectOf(identity.enrollmentId))
    tunnel.send('ping')
    expect(await tunnel.message()).toBe('pong')
    expect(await objectOf(identity.enrollmentId).status()).toMatchObject({ connected: true })
  })
})

describe('a tunnel is closed', () => {
  const ready = async (identity: Identity): Promise<Tunnel> => {
    const tunnel = await connect(muster, identity)
    await tunnel.hello()
    return tunnel
  }

  test('when its certificate ends, also after a sleep', async () => {
    const identity = await enrollByToken(muster)
    const tunnel = await ready(identity)
    await evictDurableObject(objectOf(identity.enrollmentId))
    deployment.advance(899)
    await runDurableObjectAlarm(objectOf(identity.enrollmentId))
    tunnel.send('ping')
    expect(await tunnel.message()).toBe('pong')
    deployment.advance(1)
    await runDurableObjectAlarm(objectOf(identity.enrollmentId))
    expect(await tunnel.closed()).toBe(4001)
  })

  test('when the next one of its enrollment has said hello, and not before', async () => {
    const identity = await enrollByToken(muster)
    const first = await ready(identity)
    const second = await connect(muster, await muster.renew(identity))
    first.send('ping')
    expect(await first.message()).toBe('pong')
    expect(await second.hello()).toMatchObject({ type: 'ready' })
    expect(await first.closed()).toBe(4002)
    second.send('ping')
    expect(await second.message()).toBe('pong')
  })

  test('when it has not said hello and another comes', async () => {
    const identity = await enrollByToken(muster)
    const silent = await connect(muster, identity)
    await connect(muster, identity)
    expect(await silent.closed()).toBe(4002)
  })

  test('at once when the parent’s connection crosses the tip’s, which is no evidence', async () => {
    const identity = await enrollByToken(muster)
    const renewed = await muster.renew(identity)
    const tip = await ready(renewed)
    deployment.advance(60)
    expect(await (await connect(muster, identity)).closed()).toBe(4002)
    tip.send('ping')
    expect(await tip.message()).toBe('pong')
    expect((await muster.renew(renewed)).status).toBe(200)
  })

  test('not by a late one of the parent, though it has not said hello yet', async () => {
    const identity = await enrollByToken(muster)
    const owners = await connect(muster, await muster.renew(identity))
    const log = vi.spyOn(console, 'info')
    expect(await (await connect(muster, identity)).closed()).toBe(4002)
    const outcomes = log.mock.calls.map(([line]) => JSON.parse(String(line)).outcome)
    log.mockRestore()
    expect(outcomes).toEqual(['replaced'])
    expect(await owners.hello()).toMatchObject({ type: 'ready' })
  })

  test('when a provisioned runner restarts and is ready, and the certificate before is a clone from then on', async () => {
    const identity = await provisioned({ notAfter: at(90 * 24 * 3600) })
    await ready(identity)
    const renewed = await muster.renew(identity)
    const before = await ready(renewed)
    const restarted = await connect(muster, identity)
    await evictDurableObject(objectOf(identity.id))
    before.send('ping')
    expect(await before.message()).toBe('pong')
    expect(await restarted.hello()).toMatchObject({ type: 'ready' })
    expect(await before.closed()).toBe(4002)
    const again = await muster.renew(identity)
    expect(await (await connect(muster, again)).hello()).toMatchObject({ type: 'ready' })
    expect(await problem({ tls: headerOf(renewed) })).toMatchObject({ reason: 'clone_suspected' })
  })

  test('when a provisioned runner restarts and renews first', async () => {
    const identity = await provisioned({ notAfter: at(90 * 24 * 3600) })
    const before = await ready(await muster.renew(identity))
    expect((await muster.renew(identity)).status).toBe(200)
    expect(await before.closed()).toBe(4002)
  })

  test('not by a provisioned certificate whose connection crossed its successor’s and never said hello', async () => {
    const identity = await provisioned({ notAfter: at(90 * 24 * 3600) })
    const renewed = await muster.renew(identity)
    const owners = await connect(muster, renewed)
    const crossed = [await connect(muster, identity), await connect(muster, identity)]
    expect(await crossed[0]?.closed()).toBe(4002)
    expect(await owners.hello()).toMatchObject({ type: 'ready' })
    expect(await crossed[1]?.closed()).toBe(4002)
    expect((await muster.renew(renewed)).status).toBe(200)
  })

  test('when a clone is seen, in a connection as in a renewal', async () => {
    for (const use of ['connection', 'renewal']) {
      const stolen = await enrollByToken(muster)
      const tunnel = await ready(await muster.renew(stolen))
      deployment.advance(61)
      const answer =
        use === 'renewal' ? await muster.renew(stolen) : await requestUpgrade(muster, { tls: headerOf(stolen) })
      const { status, json } = answer as Answered
      expect([status, json.code]).toEqual([401, 'attestation_invalid'])
      expect((await findEvent(db, String(json.requestId)))?.reason).toBe('clone_suspected')
      expect(await tunnel.closed()).toBe(4003)
    }
  })

  test('by the cron, on a ban and on a revocation, and nobody else’s', async () => {
    const { token, id } = await mint()
    const revoked = await muster.enroll({ mode: 'bootstrap-token', token })
    const runnerToken = await mint('runner', 'build-8')
    const banned = await muster.enroll({ mode: 'runner-token', token: runnerToken.token })
    const other = await enrollByToken(muster)
    const tunnels = { revoked: await ready(revoked), banned: await ready(banned), other: await ready(other) }
    await insertBan(db, { kind: 'runner-id', value: 'build-8', note: null, createdAt: now() })
    await revokeToken(db, id, now())
    await muster.cron()
    expect(await tunnels.revoked.closed()).toBe(4003)
    expect(await tunnels.banned.closed()).toBe(4003)
    expect((await muster.renew(banned)).json.code).toBe('banned')
    tunnels.other.send('ping')
    expect(await tunnels.other.message()).toBe('pong')
    expect(await findEnrollment(db, revoked.enrollmentId)).toMatchObject({ endedReason: 'token_revoked' })
    expect(await objectOf(revoked.enrollmentId).status()).toMatchObject({ ended: 'token_revoked' })
    await deleteBan(db, { kind: 'runner-id', value: 'build-8' })
  })

  test('by the cron once more where an old ban list let it connect again; then the ban needs no more work', async () => {
    const identity = await enrollByToken(muster)
    const ban = { kind: 'enrollment', value: identity.enrollmentId } as const
    const first = await ready(identity)
    await insertBan(db, { ...ban, note: null, createdAt: now() })
    await muster.cron()
    expect(await first.closed()).toBe(4003)
    // An object that slept has only the ban list that the isolate brings, so it may miss a ban.
    await evictDurableObject(objectOf(identity.enrollmentId))
    const second = await ready(identity)
    deployment.advance(60)
    await muster.cron()
    expect(await second.closed()).toBe(4003)
    expect(await listBans(db)).toMatchObject([{ ...ban, sweptAt: now() }])
    await deleteBan(db, ban)
  })
})

describe('an operator drains a runner', () => {
  test('that is connected, by the next cron, once', async () => {
    const identity = await enrollByToken(muster)
    const tunnel = await connect(muster, identity)
    await tunnel.hello()
    const target = { kind: 'enrollment', value: identity.enrollmentId } as const
    expect(await requestDrain(db, target, now())).toEqual([identity.enrollmentId])
    await muster.cron()
    expect(await tunnel.message()).toBe('{"type":"drain"}')
    await muster.cron()
    tunnel.send('ping')
    expect(await tunnel.message()).toBe('pong')
  })

  test('that is not, when it connects', async () => {
    const identity = await enrollByToken(muster)
    await requestDrain(db, { kind: 'enrollment', value: identity.enrollmentId }, now())
    await muster.cron()
    const tunnel = await connect(muster, identity)
    await tunnel.hello()
    expect(await tunnel.message()).toBe('{"type":"drain"}')
  })
})
