// Tests `aws-sts` evidence that is accepted, and which request the attestor sends to STS for it.
import { expect, test } from 'vitest'
import type { Reason } from '../../../src/protocol/reasons.ts'
import { toEpochSeconds } from '../../../src/protocol/time.ts'
import { awsSts } from '../../../src/worker/attestors/aws-sts.ts'
import { fakeSts, GET_CALLER_IDENTITY } from '../../fakes/sts.ts'
import { trustWith } from '../../fakes/trust.ts'
import {
  appraisal,
  appraise,
  nonce,
  now,
  regions,
  roleKey,
  type Sent,
  sign,
  unlimited,
  userKey,
} from './aws-fixture.ts'
import { attestorContract } from './contract.ts'

attestorContract('aws-sts', async () => ({
  attestor: awsSts({ regions, fetch: fakeSts(() => now, [roleKey]).fetch, ...unlimited }),
  evidence: { ...(await sign()) },
  now: toEpochSeconds(now),
  challengeNonce: nonce,
  trust: trustWith({ awsMappings: [{ tenant: 'acme', account: '111122223333', principal: null }] }),
}))

type Headers = Readonly<Record<string, string>>
const rename = (sent: Sent, change: (name: string) => string): Sent => ({
  ...sent,
  headers: Object.fromEntries(Object.entries(sent.headers).map(([name, value]) => [change(name), value])),
})
const lower = (sent: Sent): Sent => rename(sent, (name) => name.toLowerCase())
const upper = (sent: Sent): Sent => rename(sent, (name) => name.toUpperCase())
const reversed = (sent: Sent): Sent => ({
  ...sent,
  headers: Object.fromEntries(Object.entries(sent.headers).reverse()),
})
const narrow = (sent: Sent): Sent => ({
  ...sent,
  headers: { ...sent.headers, Authorization: (sent.headers.Authorization ?? '').replaceAll(', ', ',') },
})

const FORM = 'application/x-www-form-urlencoded'
const LENGTH: Headers = { 'Content-Length': '43' }
const HASH: Headers = { 'X-Amz-Content-Sha256': 'ab821ae955788b0e33ebd34c208442ccfc2d406e2edc5e7a39bd6458fbb4f843' }
const SDK: Headers = {
  'amz-sdk-invocation-id': '5e7f4a90-1111-4222-8333-444455556666',
  'amz-sdk-request': 'attempt=1; max=3',
}

test.each<[string, () => Promise<Sent>]>([
  ['plain', sign],
  ['lower-case names', async () => lower(await sign())],
  ['upper-case names', async () => upper(await sign())],
  ['names in another order', async () => reversed(await sign())],
  ['no space after the commas', async () => narrow(await sign())],
  ['another region of the list', () => sign({ region: 'sa-east-1' })],
  ['the key of a user, without a session token', () => sign({ key: userKey })],
  ['no content type', () => sign({ headers: { 'Content-Type': undefined } })],
  [
    'an unsigned content type',
    () => sign({ headers: { 'Content-Type': undefined }, unsigned: { 'Content-Type': 'a/b' } }),
  ],
  ['a date 5 minutes old', () => sign({ at: now - 300_000 })],
  ['a date 5 minutes ahead', () => sign({ at: now + 300_000 })],
  // What the SDKs of AWS sign and send.
  ['botocore', () => sign({ unsigned: { ...SDK, ...LENGTH, 'User-Agent': 'Botocore/1.44' } })],
  ['Go, version 1', () => sign({ headers: LENGTH, unsigned: { 'User-Agent': 'aws-sdk-go/1.55' } })],
  ['Go, version 2', async () => lower(await sign({ headers: { ...SDK, ...LENGTH, 'Content-Type': FORM } }))],
  ['Java', () => sign({ headers: { ...SDK, ...HASH, ...LENGTH, 'User-Agent': 'aws-sdk-java/2.30  md/io#sync' } })],
  [
    'JavaScript',
    async () =>
      lower(
        await sign({
          headers: { ...SDK, ...HASH, ...LENGTH, 'Content-Type': FORM, 'X-Amz-User-Agent': 'aws-sdk-js/3' },
        }),
      ),
  ],
  ['.NET', () => sign({ headers: { 'Content-Type': `${FORM};charset=UTF-8` } })],
])('a request is accepted by exactly one call of STS: %s', async (_, evidence) => {
  const { calls, result } = await appraise(await evidence())
  expect(result).toMatchObject({ ok: true })
  expect(calls).toHaveLength(1)
  expect(calls[0]).toMatchObject({ method: 'POST', target: '/', body: GET_CALLER_IDENTITY })
})

test('what was proven are the account, the ARN and the role or user', async () => {
  const { result } = await appraise(await sign())
  const { arn } = roleKey
  expect(result).toEqual({
    ok: true,
    value: { mode: 'aws-sts', account: '111122223333', arn, principal: { kind: 'role', name: 'runner' } },
  })
})

test('nothing that is not signed is forwarded', async () => {
  const unsigned = {
    'X-Forwarded-Host': 'attacker.example',
    'Transfer-Encoding': 'chunked',
    Connection: 'X-Amz-Date',
    'X-Amz-Target': 'Other.Action',
    'X-Amz-Other': 'x',
    'X-HTTP-Method-Override': 'GET',
    Cookie: 'a=b',
    'Proxy-Authorization': 'Basic eA==',
    'Content-Length': '9999',
    Accept: 'application/json',
    'Accept-Encoding': 'identity',
    Expect: '100-continue',
    'User-Agent': 'mine',
    'X-Name': 'ñ',
  }
  const { calls, result } = await appraise(await sign({ unsigned }))
  expect(result.ok).toBe(true)
  const arrived = (calls[0]?.headers ?? []).map(([name, value]) => `${name}: ${value}`).sort()
  expect(arrived).toEqual([
    'accept: text/xml',
    expect.stringMatching(/^authorization: AWS4-HMAC-SHA256 /),
    'content-length: 43',
    'content-type: application/x-www-form-urlencoded; charset=utf-8',
    'host: sts.us-east-1.amazonaws.com',
    'x-amz-date: 20260301T120000Z',
    `x-amz-security-token: ${roleKey.sessionToken}`,
    `x-muster-nonce: ${nonce}`,
  ])
})

test('a session token of 16 KiB goes through: AWS sets no limit, and they grow', async () => {
  const long = { ...roleKey, sessionToken: 'F'.repeat(16 * 1024) }
  const { result } = await appraise(
    await sign({ key: long }),
    fakeSts(() => now, [long]),
  )
  expect(result.ok).toBe(true)
})

test('evidence signed with another nonce is useless with ours written into it', async () => {
  const foreign = await sign({ nonce: 'M'.repeat(64) })
  const { reason, calls } = await appraise({ ...foreign, headers: { ...foreign.headers, 'X-Muster-Nonce': nonce } })
  expect(reason).toBe('sts_signature')
  expect(calls).toHaveLength(1)
})

test.each<[string, Reason, () => Promise<Sent>]>([
  ['a wrong secret', 'sts_signature', () => sign({ key: { ...roleKey, secretAccessKey: 'wrong' } })],
  ['an unknown key', 'sts_key_unknown', () => sign({ key: { ...roleKey, accessKeyId: 'ASIAUNKNOWN' } })],
  ['the session token of another key', 'sts_key_unknown', () => sign({ key: { ...roleKey, sessionToken: 'other' } })],
  ['a session token for a key without', 'sts_key_unknown', () => sign({ key: { ...userKey, sessionToken: 'other' } })],
])('STS is asked once and refuses %s', async (_, expected, evidence) => {
  const { calls, reason } = await appraise(await evidence())
  expect(reason).toBe(expected)
  expect(calls).toHaveLength(1)
})

test('an expired session and a wrong key have different reasons', async () => {
  const { reason } = await appraise(
    await sign(),
    fakeSts(() => now, [{ ...roleKey, expired: true }]),
  )
  expect(reason).toBe('sts_expired')
})

test('an address that names a key too often does not reach STS', async () => {
  const asked: string[][] = []
  const sts = fakeSts(() => now, [roleKey])
  const allowNamedKey = async (...given: string[]) => {
    asked.push(given)
    return false
  }
  const { calls, reason } = await appraise(await sign(), sts, { ...unlimited, allowNamedKey })
  expect(reason).toBe('rate_limited')
  expect(asked).toEqual([['192.0.2.1', roleKey.accessKeyId]])
  expect(calls).toHaveLength(0)
})

test('a key counts by itself only once STS has proven it', async () => {
  const proven: string[] = []
  const allowProvenKey = async (accessKeyId: string) => {
    proven.push(accessKeyId)
    return false
  }
  const sts = () => fakeSts(() => now, [roleKey])
  const forged = await sign({ key: { ...roleKey, secretAccessKey: 'a guess' } })
  expect(await appraise(forged, sts(), { ...unlimited, allowProvenKey })).toMatchObject({ reason: 'sts_signature' })
  expect(proven).toEqual([])
  expect(await appraise(await sign(), sts(), { ...unlimited, allowProvenKey })).toMatchObject({
    reason: 'rate_limited',
  })
  expect(proven).toEqual([roleKey.accessKeyId])
})

test.each<[string, (url: string, init: RequestInit) => Promise<Response>]>([
  ['cannot be reached', () => Promise.reject(new TypeError('network'))],
  [
    'never answers',
    (_, { signal }) => new Promise((_, fail) => signal?.addEventListener('abort', () => fail(signal.reason))),
  ],
  [
    'stalls in the middle of its answer',
    async (_, { signal }) => {
      const start = (controller: ReadableStreamDefaultController) => {
        controller.enqueue(new TextEncoder().encode('<GetCaller'))
        signal?.addEventListener('abort', () => controller.error(signal.reason))
      }
      return new Response(new ReadableStream({ start }), { headers: { 'content-type': 'text/xml' } })
    },
  ],
])('STS that %s is an outage, and is not asked again', { concurrent: true }, async (_, fetch) => {
  let calls = 0
  const counting = (url: string, init: RequestInit) => {
    calls++
    return fetch(url, init)
  }
  const attestor = awsSts({ regions, fetch: counting, ...unlimited })
  const result = await attestor.appraise(await sign(), appraisal)
  expect(result).toEqual({ ok: false, error: { reason: 'sts_unavailable' } })
  expect(calls).toBe(1)
})
