// Tests POST /api/enroll with `mtls-renewal`: who is renewed, until when, and what the new certificate holds.
import 'reflect-metadata'
import { env, evictDurableObject, runDurableObjectAlarm } from 'cloudflare:test'
import { BasicConstraintsExtension, ExtendedKeyUsageExtension, X509Certificate } from '@peculiar/x509'
import { beforeEach, describe, expect, test } from 'vitest'
import { encodeBase64url } from '../../../src/protocol/bytes.ts'
import { minutes } from '../../../src/protocol/time.ts'
import { findEnrollment } from '../../../src/worker/store/enrollments.ts'
import { listEvents } from '../../../src/worker/store/events.ts'
import { forgeCa, type Issuer, LEAF_URI, type LeafOptions } from '../../fakes/ca-forge.ts'
import { deployment } from '../../fakes/deployment.ts'
import { enrollBody, makeRequester } from '../../fakes/requester.ts'
import {
  at,
  db,
  enrollByToken,
  type Identity,
  makeIssuers,
  mint,
  musterUnder,
  provisionedBy,
  reasonOf,
  serialOf,
  settled,
  sign,
  startMuster,
} from '../fleet/runners-fixture.ts'

const { root, issuer, muster } = await startMuster()

beforeEach(() => deployment.setTrust({}))

const runners = env.ENROLLMENTS

const provisioned = ({ by = issuer, ...options }: LeafOptions & { by?: Issuer } = {}) => provisionedBy(by, options)

describe('a runner renews', () => {
  test('and gets a new certificate of the same tenant, origin and enrollment', async () => {
    const first = await enrollByToken(muster)
    deployment.advance(600)
    const second = await muster.renew(first)
    expect(second.status).toBe(200)
    expect(second.certificate).not.toBe(first.certificate)
    expect(second).toMatchObject({
      tenant: first.tenant,
      enrollmentId: first.enrollmentId,
      spiffeId: first.spiffeId,
      trustBundle: first.trustBundle,
      runnerId: null,
    })
    deployment.advance(600)
    expect((await muster.renew(second)).status).toBe(200)
  })

  test('with a runner token and keeps its runner ID', async () => {
    const { token } = await mint('runner', 'build-7')
    const first = await muster.enroll({ mode: 'runner-token', token })
    expect((await muster.renew(first)).runnerId).toBe('build-7')
  })

  test('whatever the body says of who it is', async () => {
    const identity = await enrollByToken(muster)
    const body = await muster.renewalBody(identity, await makeRequester())
    const { status, json } = await muster.post('/api/enroll', { ...body, tenant: 'globex' })
    expect([status, json.code]).toEqual([400, 'request_malformed'])
  })

  test('through any number of lost answers, with one key or with several', async () => {
    const identity = await enrollByToken(muster)
    deployment.advance(600)
    const asking = await makeRequester()
    const lost = await muster.renew(identity, asking)
    const again = await muster.renew(identity, asking)
    expect(serialOf(again)).toBe(serialOf(lost))
    expect([again.notBefore, again.notAfter]).toEqual([lost.notBefore, lost.notAfter])
    const third = await muster.renew(identity)
    expect(serialOf(third)).not.toBe(serialOf(lost))
    expect((await muster.renew(third)).status).toBe(200)
  })

  test('after its object was evicted as before', async () => {
    const first = await enrollByToken(muster)
    const second = await muster.renew(first)
    await evictDurableObject(runners.getByName(first.enrollmentId))
    expect((await muster.renew(second)).status).toBe(200)
    await evictDurableObject(runners.getByName(first.enrollmentId))
    expect((await muster.renew(first)).json.code).toBe('attestation_invalid')
  })

  test('while the database is away', async () => {
    let away = false
    const DB = new Proxy(env.DB, {
      get(database, name) {
        if (away) throw new Error('D1_ERROR: away')
        const value = Reflect.get(database, name)
        return typeof value === 'function' ? value.bind(database) : value
      },
    })
    const other = musterUnder(issuer, root, [], { DB })
    // Its first renewal needs the database: the object begins then.
    let identity: Identity = await other.renew(await enrollByToken(other))
    away = true
    deployment.advance(600)
    identity = await other.renew(identity)
    expect(identity).toMatchObject({ status: 200 })
    deployment.advance(301)
    expect(await other.renew(identity)).toMatchObject({ status: 503, json: { code: 'upstream_unavailable' } })
    away = false
    deployment.advance(6)
    expect(await other.renew(identity)).toMatchObject({ status: 200 })
  })

  test('logs it and writes no row, and rewrites the row of the fleet once an hour', async () => {
    const identity = await enrollByToken(muster)
    const { enrollmentId } = identity
    const events = (await listEvents(db, 1000)).length
    let newest: Identity = identity
    const seen = new Set<number>()
    for (let minute = 0; minute < 130; minute += 10) {
      newest = await muster.renew(newest)
      await settled(enrollmentId)
      seen.add((await findEnrollment(db, enrollmentId))?.seenAt ?? 0)
      deployment.advance(600)
    }
    expect((await listEvents(db, 1000)).length).toBe(events)
    expect(seen.size).toBe(3)
  })
})

describe('the window', () => {
  test.each([0, 1, 299, 300, 301, 359, 360])('%i s after its end a certificate is renewed', async (after) => {
    const { certificate, keys } = await provisioned({ notAfter: at(-after) })
    expect((await muster.renew({ certificate, keys })).status).toBe(200)
  })

  test.each([361, 86_400])('%i s after its end it is not, and the answer says so', async (after) => {
    const identity = await provisioned({ notBefore: at(-100_000), notAfter: at(-after) })
    const { status, json } = await muster.renew(identity)
    expect([status, json.code]).toEqual([401, 'renewal_window_passed'])
    expect(json.detail).toBe('presented cert expired beyond the renewal grace window')
  })

  test('whoever does not hold the key does not learn that it has passed', async () => {
    const { certificate } = await provisioned({ notBefore: at(-100_000), notAfter: at(-361) })
    const { keys } = await makeRequester()
    expect((await muster.renew({ certificate, keys })).json.code).toBe('attestation_invalid')
  })

  test('a short certificate renews until its real end', async () => {
    deployment.setTrust({ certificate: { lifetime: minutes(5), reattest: null, onClone: 'end' } })
    const identity = await enrollByToken(muster)
    deployment.advance(300 + 360)
    const renewed = await muster.renew(identity)
    expect(renewed.status).toBe(200)
    deployment.advance(300 + 361)
    expect((await muster.renew(renewed)).json.code).toBe('renewal_window_passed')
  })
})

describe('a renewal is refused', () => {
  const serverOnly = new ExtendedKeyUsageExtension(['1.3.6.1.5.5.7.3.1'])
  const foreign = { uris: ['spiffe://elsewhere/tenant/acme/runner'] }

  test.each<[string, () => Promise<Identity>]>([
    ['with the server-only usage', () => provisioned({ extendedKeyUsage: serverOnly })],
    ['of another trust domain', () => provisioned(foreign)],
    ['with two SPIFFE IDs', () => provisioned({ uris: [LEAF_URI, 'spiffe://rootpilot/tenant/globex/runner'] })],
    [
      'with a certificate that may sign others',
      () => provisioned({ basicConstraints: new BasicConstraintsExtension(true, undefined, true) }),
    ],
    [
      'with a certificate signed by a leaf',
      async () => {
        const leaf = await provisioned()
        return provisioned({ by: { ...issuer, keys: leaf.keys } as Issuer })
      },
    ],
    ['under a foreign CA with our names', async () => provisioned({ by: { ...issuer, keys: (await forgeCa()).keys } })],
    ['under the root itself', async () => provisioned({ by: root })],
    ['before its certificate begins', () => provisioned({ notBefore: at(61), notAfter: at(900) })],
    [
      'with a certificate whose tenant is not its own',
      () => provisioned({ uris: ['spiffe://rootpilot/tenant/globex/runner'] }),
    ],
  ])('%s', async (_, make) => {
    const { status, json } = await muster.renew(await make())
    expect([status, json.code, json.detail]).toEqual([401, 'attestation_invalid', 'the attestation was not accepted'])
  })

  test.each<[string, (identity: Identity, nonce: string, asking: CryptoKeyPair) => Promise<string>]>([
    ['by the new key', async (_, nonce, keys) => encodeBase64url(await sign(keys, nonce))],
    ['over another nonce', async ({ keys }) => encodeBase64url(await sign(keys, 'A'.repeat(64)))],
    ['over the nonce and a line end', async ({ keys }, nonce) => encodeBase64url(await sign(keys, `${nonce}\n`))],
    [
      'over a tunnel’s proof',
      async ({ keys }, nonce) => encodeBase64url(await sign(keys, `muster-tunnel-v1\nmuster.example.com\n${nonce}`)),
    ],
    ['in standard base64', async ({ keys }, nonce) => `${btoa(String.fromCharCode(...(await sign(keys, nonce))))}`],
    ['of zeros', async () => encodeBase64url(new Uint8Array(64))],
    ['that is empty', async () => ''],
  ])('with a signature %s', async (_, makeSignature) => {
    const identity = await provisioned()
    const asking = await makeRequester()
    const signature = await makeSignature(identity, asking.challengeNonce, asking.keys)
    const { certificate } = identity
    const body = enrollBody(asking, { mode: 'mtls-renewal', certificate, signature })
    expect((await muster.post('/api/enroll', body)).json.code).toBe('attestation_invalid')
  })

  test('by a request that somebody else sent on with a key of his own', async () => {
    const identity = await enrollByToken(muster)
    const intercepted = await muster.renewalBody(identity, await makeRequester())
    const thief = await makeRequester()
    const body = { ...intercepted, csr: thief.csr, challengeNonce: thief.challengeNonce }
    expect((await muster.post('/api/enroll', body)).json.code).toBe('attestation_invalid')
  })

  test('without a record of the enrollment, unless it is provisioned', async () => {
    const lost = await provisioned({
      subject: [{ O: ['acme'] }, { OU: ['bootstrap-token:'] }, { CN: ['019ad000-0000-7000-8000-000000000001'] }],
    })
    expect(await reasonOf(await muster.renew(lost))).toBe('lineage_missing')
  })
})

describe('a provisioned certificate', () => {
  const DAYS = 24 * 3600

  test('starts its lineage with the first renewal and is its parent from then on', async () => {
    const identity = await provisioned()
    const first = await muster.renew(identity)
    expect(first.status).toBe(200)
    const instead = await muster.renew(identity)
    expect(instead.status).toBe(200)
    expect(await reasonOf(await muster.renew(first))).toBe('clone_suspected')
  })

  test('starts it anew after each restart, for as long as it is valid', async () => {
    const identity = await provisioned({ notAfter: at(90 * DAYS) })
    for (let boot = 0; boot < 4; boot++) {
      const first = await muster.renew(identity)
      expect((await muster.renew(first)).status).toBe(200)
      deployment.advance(20 * DAYS)
      await runDurableObjectAlarm(runners.getByName(identity.id))
    }
    deployment.advance(11 * DAYS)
    expect((await muster.renew(identity)).json.code).toBe('renewal_window_passed')
  })

  test('ends with the clone that a restart leaves behind, and starts nothing any more', async () => {
    const identity = await provisioned({ notAfter: at(90 * DAYS) })
    const second = await muster.renew(await muster.renew(identity))
    expect((await muster.renew(identity)).status).toBe(200)
    expect(await reasonOf(await muster.renew(second))).toBe('clone_suspected')
    expect(await reasonOf(await muster.renew(identity))).toBe('enrollment_ended')
  })

  test('gets nothing that lasts as long as itself, whatever key is asked for', async () => {
    const identity = await provisioned({ notAfter: at(90 * DAYS) })
    const renewed = await muster.renew(identity, await makeRequester({ keys: identity.keys }))
    expect(renewed.status).toBe(200)
    expect(Date.parse(renewed.notAfter) - deployment.clock()).toBe(900_000)
  })
})

describe('a renewal that comes again, byte for byte', () => {
  test('gets the same certificate, byte for byte, until half of its life has passed, then a newer one', async () => {
    const identity = await enrollByToken(muster)
    const asking = await makeRequester()
    const first = await muster.renew(identity, asking)
    deployment.advance(419)
    expect((await muster.renew(identity, asking)).certificate).toBe(first.certificate)
    deployment.advance(1)
    const later = await muster.renew(identity, asking)
    expect(later.status).toBe(200)
    expect(serialOf(later)).not.toBe(serialOf(first))
    expect((await muster.renew(identity, asking)).certificate).toBe(later.certificate)
    // Whoever sent it need not be the owner, who may hold the one before: both are good.
    expect((await muster.renew(first)).status).toBe(200)
  })

  test('is no clone however old it is, changes nothing, and gets nothing', async () => {
    const first = await enrollByToken(muster)
    const asking = await makeRequester()
    const old = await muster.renewalBody(first, asking)
    const { json } = await muster.post('/api/enroll', old)
    let mine: Identity = { certificate: String(json.certificate), keys: asking.keys }
    const lost = await muster.renewalBody(mine, await makeRequester())
    await muster.post('/api/enroll', lost)
    mine = await muster.renew(mine)
    for (let i = 0; i < 3; i++) {
      for (const body of [old, lost]) {
        const answer = await muster.post('/api/enroll', body)
        expect([answer.status, answer.json.code]).toEqual([401, 'attestation_invalid'])
        expect(await reasonOf(answer)).toBe('superseded')
      }
      mine = await muster.renew(mine)
      expect(mine).toMatchObject({ status: 200 })
      deployment.advance(300)
    }
  })

  test('with another nonce proves the key, and is a clone', async () => {
    const stolen = await enrollByToken(muster)
    await muster.renew(await muster.renew(stolen))
    expect(await reasonOf(await muster.renew(stolen))).toBe('clone_suspected')
  })
})

describe('during a rotation of the CA', () => {
  test('certificates of the old issuer renew under the new one until it is retired', async () => {
    const next = await makeIssuers()
    const identity = await enrollByToken(muster)
    const rotated = musterUnder(next.issuer, next.root, [issuer])
    const renewed = await rotated.renew(identity)
    expect(renewed.status).toBe(200)
    expect(new X509Certificate(renewed.certificate).issuer).toBe(next.issuer.name.toString())
    expect(renewed.trustBundle).toContain(next.root.pem.slice(40, 100))
    const straggler = await enrollByToken(muster)
    const retired = musterUnder(next.issuer, next.root)
    expect(await reasonOf(await retired.renew(straggler))).toBe('certificate_invalid')
    expect((await retired.renew(renewed)).status).toBe(200)
  })

  test('an answer lost across it is asked for again, and signed anew', async () => {
    const next = await makeIssuers()
    const identity = await enrollByToken(muster)
    const asking = await makeRequester()
    const lost = await muster.renew(identity, asking)
    const rotated = musterUnder(next.issuer, next.root, [issuer])
    const again = await rotated.renew(identity, asking)
    expect(again.status).toBe(200)
    expect(serialOf(again)).not.toBe(serialOf(lost))
  })
})

describe('enrollment and its object', () => {
  test('a token that comes again with its key gets its enrollment, until that has gone on', async () => {
    const { token } = await mint()
    const asking = await makeRequester()
    const body = enrollBody(asking, { mode: 'bootstrap-token', token })
    const first = (await muster.post('/api/enroll', body)).json
    const again = (await muster.post('/api/enroll', body)).json
    expect(again.enrollmentId).toBe(first.enrollmentId)
    const renewed = await muster.renew({ certificate: String(first.certificate), keys: asking.keys })
    expect(renewed.status).toBe(200)
    for (let i = 0; i < 2; i++) expect(await reasonOf(await muster.post('/api/enroll', body))).toBe('token_retry_over')
    expect((await muster.renew(renewed)).status).toBe(200)
  })

  test('a token and its key get the same certificate, byte for byte, until half of its life has passed', async () => {
    const { token } = await mint()
    const asking = await makeRequester()
    const body = enrollBody(asking, { mode: 'bootstrap-token', token })
    const answers = await Promise.all(Array.from({ length: 10 }, () => muster.post('/api/enroll', body)))
    const [first] = answers
    expect(new Set(answers.map(({ json }) => json.certificate)).size).toBe(1)
    deployment.advance(419)
    expect((await muster.post('/api/enroll', body)).json.certificate).toBe(first?.json.certificate)
    deployment.advance(1)
    const { json } = await muster.post('/api/enroll', body)
    expect(json.enrollmentId).toBe(first?.json.enrollmentId)
    expect(Date.parse(String(json.notAfter)) - deployment.clock()).toBe(900_000)
    expect((await muster.post('/api/enroll', body)).json.certificate).toBe(json.certificate)
    // Whoever sent it again need not be the owner.
    expect((await muster.renew({ certificate: String(first?.json.certificate), keys: asking.keys })).status).toBe(200)
  })
})
