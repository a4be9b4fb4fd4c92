// Counts what each kind of request asks of D1, of its object and of KV: the round trips that its answer waits for, and the
// rows that it writes. docs/operations.md computes the cost of a fleet from the same numbers: change both.
import 'reflect-metadata'
import { env } from 'cloudflare:test'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { deployment } from '../../fakes/deployment.ts'
import { type FakeIssuer, makeIssuer } from '../../fakes/issuer.ts'
import { enrollBody, makeRequester } from '../../fakes/requester.ts'
import { fakeSts, signEvidence } from '../../fakes/sts.ts'
import { type Counts, countsOf } from '../call-counts.ts'
import { CallRecorder } from '../calls.ts'
import { connect, type Identity, type Muster, makeIssuers, mint, musterUnder } from '../fleet/runners-fixture.ts'
import { recording } from '../recording.ts'
import { type ControlPlane, makeControlPlane } from './worker-fixture.ts'

/** Milliseconds: what an answer does not wait for must end after it. */
const recorder = new CallRecorder({ d1: 30, object: 15, kv: 15 })
const answered = () => recorder.answered()
const { DB, ENROLLMENTS, KEYS } = recorder.bindings(env as never)
const wrapped = { DB, ENROLLMENTS, KEYS }

let muster: Muster
beforeAll(async () => {
  deployment.setTime(Math.ceil(Date.now() / 1000) * 1000)
  deployment.setTrust({})
  recording.recorder = recorder
  const { issuer, root } = await makeIssuers()
  muster = musterUnder(issuer, root, [], wrapped, answered)
  // The isolate has its ban list from now on.
  await muster.renew(await enrolled())
})
afterAll(() => {
  recording.recorder = null
})

const enrolled = async () => muster.enroll({ mode: 'bootstrap-token', token: (await mint()).token })

interface Asked {
  readonly waited: { readonly d1: number; readonly object: number; readonly kv: number }
  readonly calls: { readonly d1: number; readonly object: number; readonly kv: number }
  readonly rowsWritten: { readonly d1: number; readonly object: number }
}

const askedOf = ({ d1, object, kv }: Counts): Asked => ({
  waited: { d1: d1.waited, object: object.waited, kv: kv.waited },
  calls: { d1: d1.calls, object: object.calls, kv: kv.calls },
  rowsWritten: { d1: d1.rowsWritten, object: object.rowsWritten },
})

/** What one request asks for. */
async function countsDuring(work: () => Promise<unknown>): Promise<Asked> {
  await recorder.take()
  await work()
  return askedOf(countsOf(await recorder.take()))
}

const NOTHING = { d1: 0, object: 0, kv: 0 }
/** One transaction, and after the answer one more. */
const ONE_OF_D1 = { waited: { ...NOTHING, d1: 1 }, calls: { ...NOTHING, d1: 2 } }

describe('an enrollment waits for one round trip to D1, and for no object', () => {
  const enrolls = async (body: object) => expect((await muster.post('/api/enroll', body)).status).toBe(200)

  test.each([
    // The token, the enrollment and its index; the event and the signature.
    ['bootstrap', null, 5],
    // The enrollment and its two indexes; the event and the signature.
    ['runner', 'build-7', 5],
  ] as const)('with a %s token', async (kind, runnerId, d1) => {
    const { token } = await mint(kind, runnerId)
    const body = enrollBody(await makeRequester(), { mode: `${kind}-token`, token })
    expect(await countsDuring(() => enrolls(body))).toEqual({ ...ONE_OF_D1, rowsWritten: { d1, object: 0 } })
    // Its answer was lost: nothing is written but the event.
    expect(await countsDuring(() => enrolls(body))).toEqual({ ...ONE_OF_D1, rowsWritten: { d1: 1, object: 0 } })
  })

  test('with an AWS identity', async () => {
    const account = '111122223333'
    const arn = `arn:aws:iam::${account}:user/ci`
    const key = { accessKeyId: 'AKIACOUNTED000000001', secretAccessKey: 'a secret', arn, userId: 'AIDAEXAMPLE' }
    deployment.setTrust({ awsMappings: [{ tenant: 'acme', account, principal: null }] })
    vi.stubGlobal('fetch', fakeSts(deployment.clock, [key]).fetch)
    const requester = await makeRequester()
    const evidence = await signEvidence({ key, nonce: requester.challengeNonce, at: deployment.clock() })
    const body = enrollBody(requester, { mode: 'aws-sts', ...evidence })
    expect(await countsDuring(() => enrolls(body))).toEqual({ ...ONE_OF_D1, rowsWritten: { d1: 4, object: 0 } })
    vi.unstubAllGlobals()
    deployment.setTrust({})
  })

  test('with a token of a Kubernetes cluster', async () => {
    const issuer: FakeIssuer = await makeIssuer('https://counted.example.com')
    const controlPlane: ControlPlane = await makeControlPlane([issuer], { env: wrapped, answered })
    const enroll = async () => {
      const token = await issuer.token(controlPlane.seconds())
      expect((await controlPlane.enroll(token)).status).toBe(200)
    }
    // A new isolate reads the key set in KV first.
    expect((await countsDuring(enroll)).waited).toEqual({ d1: 1, object: 0, kv: 1 })
    expect(await countsDuring(enroll)).toEqual({ ...ONE_OF_D1, rowsWritten: { d1: 5, object: 0 } })
  })
})

test('the first renewal and the first connection wait for D1 once, in their object', async () => {
  const identity = await enrolled()
  expect(await countsDuring(() => muster.renew(identity))).toEqual({
    waited: { d1: 1, object: 1, kv: 0 },
    // The fleet row follows.
    calls: { d1: 2, object: 1, kv: 0 },
    rowsWritten: { d1: 2, object: 2 },
  })
  const other = await enrolled()
  const { waited, rowsWritten } = await countsDuring(() => connect(muster, other))
  expect([waited.d1, rowsWritten.d1]).toEqual([1, 1])
})

test('a renewal waits for one call to its object, which writes one row, and asks D1 for nothing', async () => {
  let identity: Identity = await muster.renew(await enrolled())
  const renewal = {
    waited: { ...NOTHING, object: 1 },
    calls: { ...NOTHING, object: 1 },
    rowsWritten: { d1: 0, object: 1 },
  }
  for (let i = 0; i < 3; i++) {
    const next = await makeRequester()
    const before = identity
    expect(
      await countsDuring(async () => {
        identity = await muster.renew(before, next)
      }),
    ).toEqual(renewal)
  }
})

test('a later connection asks D1 for nothing', async () => {
  const identity = await muster.renew(await enrolled())
  await connect(muster, identity)
  expect((await countsDuring(() => connect(muster, identity))).calls).toMatchObject({ d1: 0 })
})

test.each([
  ['that is malformed', () => ({})],
  [
    'without a key of its own',
    async () => ({ ...enrollBody(await makeRequester(), { mode: 'bootstrap-token', token: 'x' }), csr: 'x' }),
  ],
  ['with a token of another form', async () => enrollBody(await makeRequester(), { mode: 'runner-token', token: 'x' })],
  [
    'with a token of nobody’s issuer',
    async () => enrollBody(await makeRequester(), { mode: 'kubernetes', token: 'e30.e30.e30' }),
  ],
])('a request %s waits for nothing', async (_, body) => {
  const asked = await countsDuring(async () => muster.post('/api/enroll', await body()))
  expect(asked).toEqual({ waited: NOTHING, calls: { ...NOTHING, d1: 1 }, rowsWritten: { d1: 1, object: 0 } })
})
