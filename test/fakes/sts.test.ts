// Tests the fake STS and its SigV4 against AWS’s published vectors and another signer.
import { AwsV4Signer } from 'aws4fetch'
import { expect, test } from 'vitest'
import { epochMilliseconds } from '../../src/protocol/time.ts'
import { signatureOf } from './sigv4.ts'
import { amzDate, type FakeKey, fakeSts, GET_CALLER_IDENTITY, signEvidence } from './sts.ts'

// AWS's published test suite of Signature Version 4: https://docs.aws.amazon.com/IAM/latest/UserGuide/signature-v4-test-suite.html
const SUITE = { date: '20150830', region: 'us-east-1', service: 'service' }
const SUITE_SECRET = 'wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY'
const host = ['Host', 'example.amazonaws.com'] as const
const date = ['X-Amz-Date', '20150830T123600Z'] as const

test.each([
  [
    'get-vanilla',
    { method: 'GET', target: '/', headers: [host, date], body: '' },
    ['host', 'x-amz-date'],
    '5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31',
  ],
  [
    'get-vanilla-query-order-key-case',
    { method: 'GET', target: '/?Param2=value2&Param1=value1', headers: [host, date], body: '' },
    ['host', 'x-amz-date'],
    'b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500',
  ],
  [
    'post-x-www-form-urlencoded',
    {
      method: 'POST',
      target: '/',
      headers: [['Content-Type', 'application/x-www-form-urlencoded'], host, date] as const,
      body: 'Param1=value1',
    },
    ['content-type', 'host', 'x-amz-date'],
    'ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a',
  ],
  [
    'get-header-value-trim',
    {
      method: 'GET',
      target: '/',
      headers: [host, ['My-Header1', ' value1'], ['My-Header2', ' "a   b   c"'], date] as const,
      body: '',
    },
    ['host', 'my-header1', 'my-header2', 'x-amz-date'],
    'acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736',
  ],
])('the signature of %s is the published one', async (_, request, signed, signature) => {
  expect(await signatureOf(request, signed, '20150830T123600Z', SUITE, SUITE_SECRET)).toBe(signature)
})

const now = epochMilliseconds(Date.UTC(2026, 2, 1, 12))
const key: FakeKey = {
  accessKeyId: 'ASIAEXAMPLEKEYID0001',
  secretAccessKey: 'a secret',
  sessionToken: 'FwoGZXIvYXdzEXAMPLETOKEN==',
  arn: 'arn:aws:sts::111122223333:assumed-role/runner/i-0abc',
  userId: 'AROAEXAMPLE:i-0abc',
}

/** Signed by aws4fetch, which has no line in common with the fake. */
async function signedElsewhere(signing: Partial<{ secretAccessKey: string; datetime: string; region: string }> = {}) {
  const signer = new AwsV4Signer({
    ...key,
    service: 'sts',
    region: 'us-east-1',
    datetime: amzDate(now),
    url: 'https://sts.us-east-1.amazonaws.com/',
    method: 'POST',
    headers: { 'content-type': 'application/x-www-form-urlencoded', 'x-muster-nonce': 'a  nonce' },
    body: GET_CALLER_IDENTITY,
    allHeaders: true,
    ...signing,
  })
  const { url, method, headers, body } = await signer.sign()
  return { url: url.href, init: { method, headers, body } as RequestInit }
}

test('the fake accepts what another signer signed, and says who it was', async () => {
  const sts = fakeSts(() => now, [key])
  const { url, init } = await signedElsewhere()
  const answer = await sts.fetch(url, init)
  expect(answer.status).toBe(200)
  expect(await answer.text()).toContain(`<Arn>${key.arn}</Arn>`)
  expect(sts.calls).toHaveLength(1)
})

test.each([
  ['another secret', { secretAccessKey: 'another' }, 'does not match'],
  ['a date of 20 minutes ago', { datetime: amzDate(now - 20 * 60_000) }, 'Signature expired'],
  ['a date 6 minutes ahead', { datetime: amzDate(now + 6 * 60_000) }, 'Signature not yet current'],
  ['another region', { region: 'eu-west-1' }, 'scoped to a valid region'],
])('the fake refuses what was signed with %s', async (_, signing, message) => {
  const { url, init } = await signedElsewhere(signing)
  const answer = await fakeSts(() => now, [key]).fetch(url, init)
  expect(answer.status).toBe(403)
  expect(await answer.text()).toContain(message)
})

test('the fake refuses a signed header that was changed on the way, and an expired or unknown key', async () => {
  const { url, init } = await signedElsewhere()
  const headers = new Headers(init.headers)
  headers.set('x-muster-nonce', 'another nonce')
  expect((await fakeSts(() => now, [key]).fetch(url, { ...init, headers })).status).toBe(403)
  const expired = await fakeSts(() => now, [{ ...key, expired: true }]).fetch(url, init)
  expect(await expired.text()).toContain('<Code>ExpiredToken</Code>')
  expect(await (await fakeSts(() => now).fetch(url, init)).text()).toContain('<Code>InvalidClientTokenId</Code>')
})

test('the evidence that tests sign is what the other signer signs', async () => {
  const evidence = await signEvidence({
    key,
    nonce: 'a  nonce',
    at: now,
    headers: { 'Content-Type': 'application/x-www-form-urlencoded' },
  })
  expect(evidence.headers.Authorization).toBe(new Headers((await signedElsewhere()).init.headers).get('authorization'))
})
