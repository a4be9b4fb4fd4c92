// Tests that manipulated `aws-sts` evidence is refused before anything is sent to STS.
import { expect, test } from 'vitest'
import type { Reason } from '../../../src/protocol/reasons.ts'
import { GET_CALLER_IDENTITY } from '../../fakes/sts.ts'
import { appraise, nonce, now, regions, roleKey, type Sent, sign } from './aws-fixture.ts'

/** Whatever is wrong with it, STS never hears of it. */
async function refusedUnheard(evidence: Sent, expected: Reason) {
  const { calls, reason } = await appraise(evidence)
  expect(reason).toBe(expected)
  expect(calls).toHaveLength(0)
}

const withHeaders = async (headers: Record<string, string>): Promise<Sent> => {
  const sent = await sign()
  return { ...sent, headers: { ...sent.headers, ...headers } }
}
const without = (sent: Sent, name: string): Sent => {
  const { [name]: _, ...headers } = sent.headers
  return { ...sent, headers }
}

test.each([
  ['accept-json', { Accept: 'application/json' }],
  ['accept-encoding', { 'Accept-Encoding': 'identity' }],
  ['x-amz-target', { 'X-Amz-Target': 'Other.Action' }],
  ['cookie', { Cookie: 'a=b' }],
  ['x-forwarded-host', { 'X-Forwarded-Host': 'attacker.example' }],
  ['x-http-method-override', { 'X-HTTP-Method-Override': 'GET' }],
  ['transfer-encoding', { 'Transfer-Encoding': 'chunked' }],
  ['proxy-authorization', { 'Proxy-Authorization': 'Basic eA==' }],
  ['x-amzn-trace-id', { 'X-Amzn-Trace-Id': 'Root=1' }],
  ['content-type-json', { 'Content-Type': 'application/x-amz-json-1.1' }],
  ['content-type with a boundary', { 'Content-Type': 'multipart/form-data; boundary=x' }],
  ['content-type of two types', { 'Content-Type': 'application/x-www-form-urlencoded, application/json' }],
  ['content-length-wrong', { 'Content-Length': '9999' }],
  ['content-length in another spelling', { 'Content-Length': '043' }],
  ['header-nonascii', { 'X-Amz-Meta': 'nónce' }],
  ['host-other-region', { Host: 'sts.us-west-2.amazonaws.com' }],
  ['host-attacker', { Host: 'attacker.example' }],
  ['host-with-port', { Host: 'sts.us-east-1.amazonaws.com:443' }],
  ['host-global', { Host: 'sts.amazonaws.com' }],
  ['host-upper', { Host: 'STS.us-east-1.amazonaws.com' }],
])('a signed header that means something else is refused: %s', async (_, headers) => {
  await refusedUnheard(await sign({ headers }), 'aws_headers')
})

test.each([
  '2026-03-01T12:00:00Z',
  '20260301T120000',
  '20260301t120000z',
  '20260301T120000+0',
  '20260231T120000Z',
  '20260301T240000Z',
  '20260301T1200600',
  '',
])('a date that is not a time in the basic form is refused: %s', async (date) => {
  await refusedUnheard(await sign({ headers: { 'X-Amz-Date': date } }), 'aws_headers')
})

test.each([
  ['same-header-two-cases', { 'x-amz-date': '20250101T000000Z' }],
  ['an unsigned header in two cases', { 'X-Other': 'a', 'x-other': 'a' }],
  ['two authorizations', { authorization: 'AWS4-HMAC-SHA256 x' }],
  ['header-crlf', { 'X-Amz-Date': '20260301T120000Z\r\nHost: attacker.example' }],
  ['a control character in an unsigned header', { 'X-Other': 'a\u0000' }],
  ['a line end in a name', { 'X-Other\n': 'a' }],
  ['an empty name', { '': 'a' }],
  ['a name that folds into another in Unicode only', { 'X-Amz-Security-To\u212aen': 'a' }],
])('headers that two readers could read in two ways are refused: %s', async (_, headers) => {
  await refusedUnheard(await withHeaders(headers), 'aws_headers')
})

test.each(['Host', 'Content-Type', 'X-Amz-Date'])(
  'a header that is signed and not sent is refused: %s',
  async (name) => {
    await refusedUnheard(without(await sign(), name), 'aws_headers')
  },
)

test('a header called __proto__ replaces no other', async () => {
  const text = JSON.stringify(await sign()).replace('"Host"', '"__proto__"')
  await refusedUnheard(JSON.parse(text), 'aws_headers')
})

test.each<[string, Reason, string, string]>([
  ['host-not-signed', 'aws_headers', 'Host', 'sts.us-east-1.amazonaws.com'],
  ['date-not-signed', 'aws_headers', 'X-Amz-Date', '20260301T120000Z'],
  ['token-not-signed', 'aws_headers', 'X-Amz-Security-Token', 'a token'],
  ['nonce-not-signed', 'aws_nonce', 'X-Muster-Nonce', nonce],
])('what must be signed is not enough unsigned: %s', async (_, reason, name, value) => {
  await refusedUnheard(await sign({ headers: { [name]: undefined }, unsigned: { [name]: value } }), reason)
})

test.each(['M'.repeat(64), `${nonce}, ${nonce}`, ` ${nonce}`, nonce.toLowerCase(), ''])(
  'a nonce that is not the one of the request is refused: %s',
  async (other) => {
    await refusedUnheard(await sign({ nonce: other }), 'aws_nonce')
  },
)

test('a request for another region, service or day than it was signed for is refused', async () => {
  await refusedUnheard({ ...(await sign({ region: 'us-west-2' })), region: 'us-east-1' }, 'aws_scope')
  await refusedUnheard(await sign({ service: 's3' }), 'aws_scope')
  await refusedUnheard(await changed((a) => a.replace('/20260301/', '/20260228/')), 'aws_scope')
})

test('a date is 5 minutes off at most, either way', async () => {
  await refusedUnheard(await sign({ at: now - 301_000 }), 'aws_clock')
  await refusedUnheard(await sign({ at: now + 301_000 }), 'aws_clock')
})

async function changed(change: (authorization: string) => string): Promise<Sent> {
  const { Authorization = '' } = (await sign()).headers
  return withHeaders({ Authorization: change(Authorization) })
}

test.each<[string, (authorization: string) => string]>([
  ['sigv4a', (a) => a.replace('AWS4-HMAC-SHA256', 'AWS4-ECDSA-P256-SHA256')],
  ['another hash', (a) => a.replace('AWS4-HMAC-SHA256', 'AWS4-HMAC-SHA512')],
  ['no algorithm', (a) => a.replace('AWS4-HMAC-SHA256 ', '')],
  ['a space before it', (a) => ` ${a}`],
  ['a space after it', (a) => `${a} `],
  ['two algorithms', (a) => `AWS4-HMAC-SHA256 ${a}`],
  ['a fourth part', (a) => `${a}, Other=x`],
  ['a second Credential', (a) => a.replace('Credential=', 'Credential=x, Credential=')],
  ['a second SignedHeaders', (a) => `${a}, SignedHeaders=host`],
  ['no Signature', (a) => a.slice(0, a.indexOf(', Signature'))],
  ['a signature in upper case', (a) => a.replace(/[0-9a-f]{63}$/, `${'A'.repeat(63)}`)],
  ['a signature of 63 digits', (a) => a.slice(0, -1)],
  ['a signature with more behind it', (a) => `${a}00`],
  ['names in upper case', (a) => a.replace('x-amz-date', 'X-Amz-Date')],
  ['names out of order', (a) => a.replace('content-type;host', 'host;content-type')],
  ['a name twice', (a) => a.replace('host;', 'host;host;')],
  ['an empty name', (a) => a.replace('host;', 'host;;')],
  ['no names', (a) => a.replace(/SignedHeaders=[^,]*/, 'SignedHeaders=')],
  ['a scope with more parts', (a) => a.replace('/aws4_request', '/aws4_request/aws4_request')],
  ['a scope with fewer parts', (a) => a.replace('/sts/', '/')],
  ['another end of scope', (a) => a.replace('aws4_request', 'aws5_request')],
  ['no access key', (a) => a.replace(roleKey.accessKeyId, '')],
  ['an access key with a percent sign', (a) => a.replace(roleKey.accessKeyId, 'ASIA%2FX')],
  ['an access key of 129 characters', (a) => a.replace(roleKey.accessKeyId, 'A'.repeat(129))],
  ['the query form', (a) => a.replace('AWS4-HMAC-SHA256 Credential=', 'X-Amz-Algorithm=AWS4-HMAC-SHA256&Credential=')],
  ['nothing in it', () => ''],
])('an Authorization header of another form is refused: %s', async (_, change) => {
  await refusedUnheard(await changed(change), 'aws_authorization')
})

test('a request without Authorization is refused', async () => {
  await refusedUnheard(without(await sign(), 'Authorization'), 'aws_authorization')
})

test.each([
  ['body-other-action', 'Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=x&WebIdentityToken=y'],
  ['body-action-twice', `${GET_CALLER_IDENTITY}&Action=AssumeRole`],
  ['body-action-case', 'action=GetCallerIdentity&Version=2011-06-15'],
  ['body-action-twice-case', `${GET_CALLER_IDENTITY}&action=AssumeRole`],
  ['body-extra-param', `${GET_CALLER_IDENTITY}&RoleArn=arn`],
  ['body-reordered', 'Version=2011-06-15&Action=GetCallerIdentity'],
  ['body-other-version', 'Action=GetCallerIdentity&Version=2010-01-01'],
  ['body-encoded', 'Action=GetCallerIdentit%79&Version=2011-06-15'],
  ['body-semicolon', 'Action=GetCallerIdentity;Version=2011-06-15'],
  ['body-plus-space', 'Action=GetCallerIdentity+&Version=2011-06-15'],
  ['body-trailing-newline', `${GET_CALLER_IDENTITY}\n`],
  ['body-nul', `${GET_CALLER_IDENTITY}%00`],
  ['a true NUL', `${GET_CALLER_IDENTITY}\u0000`],
  ['body-bom', `\ufeff${GET_CALLER_IDENTITY}`],
  ['body-empty', ''],
  ['body-base64', btoa(GET_CALLER_IDENTITY)],
  ['body-json', '{"Action":"GetCallerIdentity"}'],
])('a body that is not the one body is refused: %s', async (_, body) => {
  await refusedUnheard(await sign({ body }), 'aws_body')
})

test.each([
  'eu-west-1',
  'us-east-1.attacker.example',
  'attacker.example/',
  'us-east-1%2eattacker',
  'US-EAST-1',
  'us-east-1 ',
  'mars-north-1',
  '',
  'aws-global',
  'us-gov-west-1',
  'cn-north-1',
  'us\u2010east\u20101',
  'constructor',
])('a region outside the list is refused with the list of regions: %j', async (region) => {
  const { result, calls } = await appraise({ ...(await sign()), region })
  expect(result).toEqual({
    ok: false,
    error: { reason: 'aws_region', acceptedRegions: regions, claimed: { region: region.slice(0, 24) } },
  })
  expect(calls).toHaveLength(0)
})

test('no other refusal names the regions', async () => {
  const { result } = await appraise(await sign({ service: 's3' }))
  expect(result).not.toHaveProperty('error.acceptedRegions')
})

test('the event of a bad header names the header and never its value', async () => {
  const { result } = await appraise(await sign({ headers: { Cookie: 'secret' } }))
  expect(result).toEqual({ ok: false, error: { reason: 'aws_headers', claimed: { header: 'cookie' } } })
})
