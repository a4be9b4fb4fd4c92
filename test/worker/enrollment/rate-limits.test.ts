// Tests whose rate a request uses up: what a caller has not proven never uses up what belongs to somebody else.
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { addressKeyOf } from '../../../src/worker/enrollment/rate-limit.ts'
import { deployment } from '../../fakes/deployment.ts'
import { makeIssuer } from '../../fakes/issuer.ts'
import { enrollBody, makeRequester, type Requester } from '../../fakes/requester.ts'
import { type FakeKey, fakeSts, signEvidence } from '../../fakes/sts.ts'
import {
  connect,
  enrollByToken,
  mint,
  musterUnder,
  ORIGIN,
  proofHeaders,
  requestUpgrade,
  startMuster,
  Tunnel,
} from '../fleet/runners-fixture.ts'
import { makeControlPlane } from './worker-fixture.ts'

const { issuer, root } = await startMuster()

/** Counts as Cloudflare's limiter does, without forgetting. */
function limiterOf(limit: number) {
  const counted = new Map<string, number>()
  const limiter: RateLimit = {
    limit: async ({ key }) => {
      counted.set(key, (counted.get(key) ?? 0) + 1)
      return { success: (counted.get(key) ?? 0) <= limit }
    },
  }
  return { limiter, counted }
}

const limitedMuster = (limits: { failures?: number; identities?: number; tenants?: number }) =>
  musterUnder(issuer, root, [], {
    ...(limits.tenants === undefined ? {} : { TENANTS: limiterOf(limits.tenants).limiter }),
    ...(limits.failures === undefined ? {} : { FAILURES: limiterOf(limits.failures).limiter }),
    ...(limits.identities === undefined ? {} : { IDENTITIES: limiterOf(limits.identities).limiter }),
  })

type LimitedMuster = ReturnType<typeof limitedMuster>

async function postFrom(muster: LimitedMuster, address: string, body: unknown) {
  const headers = { 'content-type': 'application/json', 'cf-connecting-ip': address }
  const init = { method: 'POST', body: JSON.stringify(body), headers }
  const response = await muster.fetch(new Request(`${ORIGIN}/api/enroll`, init))
  return { status: response.status, code: (await response.json<{ code?: string }>()).code ?? 'granted' }
}

beforeEach(() => deployment.setTrust({}))
afterEach(() => {
  vi.unstubAllGlobals()
})

describe('an AWS access key ID', () => {
  const account = '111122223333'
  const key: FakeKey = {
    accessKeyId: 'AKIAOWNERSKEY0000001',
    secretAccessKey: 'a secret',
    arn: `arn:aws:iam::${account}:user/owner`,
    userId: 'AIDAEXAMPLE',
  }

  async function requestBy(signer: FakeKey, requester: Requester) {
    const at = deployment.clock()
    const evidence = await signEvidence({ key: signer, nonce: requester.challengeNonce, at })
    return enrollBody(requester, { mode: 'aws-sts', ...evidence })
  }

  test('that strangers name in forged requests still serves its owner', async () => {
    deployment.setTrust({ awsMappings: [{ tenant: 'acme', account, principal: null }] })
    const muster = limitedMuster({ identities: 30 })
    const sts = fakeSts(deployment.clock, [key])
    vi.stubGlobal('fetch', sts.fetch)
    const forger = { ...key, secretAccessKey: 'a guess' }
    const requester = await makeRequester()
    const forged = await requestBy(forger, requester)
    const answers = []
    for (let i = 0; i < 31; i++) answers.push(await postFrom(muster, '192.0.2.66', forged))
    expect(answers.map(({ code }) => code)).toEqual([...Array(30).fill('attestation_invalid'), 'rate_limited'])
    expect(sts.calls).toHaveLength(30)
    expect(await postFrom(muster, '198.51.100.7', await requestBy(key, await makeRequester()))).toMatchObject({
      code: 'granted',
    })
  })

  test('that STS has proven has one rate from all addresses', async () => {
    deployment.setTrust({ awsMappings: [{ tenant: 'acme', account, principal: null }] })
    const muster = limitedMuster({ identities: 3 })
    vi.stubGlobal('fetch', fakeSts(deployment.clock, [key]).fetch)
    const codes = []
    for (let i = 0; i < 4; i++) {
      codes.push((await postFrom(muster, `198.51.100.${i}`, await requestBy(key, await makeRequester()))).code)
    }
    expect(codes).toEqual(['granted', 'granted', 'granted', 'rate_limited'])
  })
})

describe('an address that somebody floods from', () => {
  const address = '192.0.2.1'
  const garbage = async () => enrollBody(await makeRequester(), { mode: 'bootstrap-token', token: 'muster_bt_x' })

  async function flooded() {
    const muster = limitedMuster({ failures: 3 })
    for (let i = 0; i < 3; i++) await postFrom(muster, address, await garbage())
    expect((await postFrom(muster, address, await garbage())).code).toBe('rate_limited')
    return muster
  }

  test('still enrolls and renews honest runners', async () => {
    const muster = await flooded()
    const requester = await makeRequester()
    const body = enrollBody(requester, { mode: 'bootstrap-token', token: (await mint()).token })
    expect((await postFrom(muster, address, body)).code).toBe('granted')
    const identity = await enrollByToken(muster)
    const renewal = await muster.renewalBody(identity, await makeRequester())
    expect((await postFrom(muster, address, renewal)).code).toBe('granted')
  })

  test('lets a runner whose certificate is refused know why', async () => {
    const muster = await flooded()
    const identity = await enrollByToken(muster)
    deployment.setTrust({ tenants: ['default'] })
    const renewal = () => makeRequester().then((requester) => muster.renewalBody(identity, requester))
    expect((await postFrom(muster, address, await renewal())).code).toBe('attestation_invalid')
    deployment.setTrust({})
    deployment.advance(900 + 361)
    expect((await postFrom(muster, address, await renewal())).code).toBe('renewal_window_passed')
  })
})

describe('the rate of an enrollment', () => {
  test('is not used up by a renewal request that somebody repeats', async () => {
    const muster = limitedMuster({ identities: 5 })
    const first = await enrollByToken(muster)
    const requester = await makeRequester()
    const copied = await muster.renewalBody(first, requester)
    const second = await muster.renew(first, requester)
    for (let i = 0; i < 20; i++) await muster.post('/api/enroll', copied)
    expect((await muster.renew(second)).status).toBe(200)
  })

  test('is used up by renewals with ever new keys', async () => {
    const muster = limitedMuster({ identities: 3 })
    let identity: Awaited<ReturnType<typeof enrollByToken>> = await enrollByToken(muster)
    const statuses = []
    for (let i = 0; i < 4; i++) {
      const renewed = await muster.renew(identity)
      statuses.push(renewed.status)
      if (renewed.status === 200) identity = renewed
    }
    expect(statuses).toEqual([200, 200, 200, 429])
  })

  test('is not used up by a signed upgrade that somebody repeats', async () => {
    const muster = limitedMuster({ identities: 5 })
    const identity = await enrollByToken(muster)
    const headers = await proofHeaders(muster, identity)
    const opened = await requestUpgrade(muster, { headers })
    for (let i = 0; i < 20; i++) await requestUpgrade(muster, { headers })
    const tunnel = await connect(muster, identity)
    expect([opened, tunnel].every((one) => one instanceof Tunnel)).toBe(true)
    tunnel.close()
  })
})

test('a tenant over its rate burns no bootstrap token, and takes no runner token', async () => {
  const muster = limitedMuster({ tenants: 1 })
  await enrollByToken(muster)
  const codes = []
  for (const [mode, kind] of [
    ['bootstrap-token', 'bootstrap'],
    ['runner-token', 'runner'],
  ] as const) {
    const { token } = await mint(kind, kind === 'runner' ? 'build-7' : null)
    codes.push((await postFrom(muster, '192.0.2.1', enrollBody(await makeRequester(), { mode, token }))).code)
  }
  expect(codes).toEqual(['granted', 'rate_limited'])
})

test('a minted token has a rate of its own before the database is asked', async () => {
  const { limiter, counted } = limiterOf(3)
  const limited = musterUnder(issuer, root, [], { IDENTITIES: limiter })
  const unknown = enrollBody(await makeRequester(), { mode: 'runner-token', token: `muster_rt_${'A'.repeat(43)}` })
  const codes = []
  for (let i = 0; i < 4; i++) codes.push((await limited.post('/api/enroll', unknown)).json.code)
  expect(codes).toEqual([...Array(3).fill('attestation_invalid'), 'rate_limited'])
  const { token } = await mint('runner', 'build-7')
  const owner = enrollBody(await makeRequester(), { mode: 'runner-token', token })
  expect((await limited.post('/api/enroll', owner)).status).toBe(200)
  expect([...counted.values()]).toEqual([4, 1])
})

test('two tenants on one node of a cluster do not share a rate', async () => {
  const { limiter, counted } = limiterOf(30)
  const cluster = await makeIssuer('https://a.example.com')
  const mapping = { cluster: 'c0', namespace: 'runners' }
  const controlPlane = await makeControlPlane([cluster], {
    env: { IDENTITIES: limiter },
    trust: {
      kubernetesMappings: [
        { ...mapping, tenant: 'acme', serviceAccount: 'runner' },
        { ...mapping, tenant: 'globex', serviceAccount: 'other' },
      ],
    },
  })
  const other = {
    claims: { sub: 'system:serviceaccount:runners:other' },
    workload: { serviceaccount: { name: 'other' } },
  }
  for (const changes of [{}, other]) {
    await controlPlane.enroll(await cluster.token(controlPlane.seconds(), changes))
  }
  expect([...counted.keys()].map((key) => key.split('/')[0])).toEqual(['acme', 'globex'])
})

test.each([
  ['192.0.2.1', '192.0.2.1'],
  ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
  ['2001:db8:1:2::9', '2001:db8:1:2::/64'],
  ['2001:db8::9', '2001:db8:0:0::/64'],
  ['::ffff:192.0.2.1', '192.0.2.1'],
])('the address %s counts as %s', (address, key) => {
  expect(addressKeyOf(address)).toBe(key)
})
