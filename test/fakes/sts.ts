// An AWS Security Token Service that knows one action, for tests: it verifies SigV4 on what arrives, says what the
// real one says in the same XML, counts what it is asked and can be made to misbehave. Runs in workerd and in Node.

import type { EpochMilliseconds } from '../../src/protocol/time.ts'
import { type Scope, signatureOf, valuesOf, type WireRequest } from './sigv4.ts'

export const GET_CALLER_IDENTITY = 'Action=GetCallerIdentity&Version=2011-06-15'

/** A key that exists, and whom it belongs to. */
export interface FakeKey {
  readonly accessKeyId: string
  readonly secretAccessKey: string
  readonly sessionToken?: string
  readonly expired?: true
  readonly arn: string
  readonly userId: string
}

export interface FakeAnswer {
  readonly status: number
  readonly headers?: Readonly<Record<string, string>>
  readonly body: string
  /** The server's connection hangs: before the status line, or after a part of the body. */
  readonly stall?: 'before' | 'within'
}

export interface FakeSts {
  /** Whatever was asked, in order, as it arrived. */
  readonly calls: WireRequest[]
  /** Given instead of the next true answers, first one first. */
  readonly instead: FakeAnswer[]
  readonly keys: FakeKey[]
  readonly answer: (request: WireRequest) => Promise<FakeAnswer>
  /** The same as a fetch function, with the two headers that a runtime writes itself. */
  readonly fetch: (url: string, init: RequestInit) => Promise<Response>
}

export function fakeSts(clock: () => EpochMilliseconds, keys: readonly FakeKey[] = []): FakeSts {
  const sts: FakeSts = {
    calls: [],
    instead: [],
    keys: [...keys],
    async answer(request) {
      sts.calls.push(request)
      return sts.instead.shift() ?? (await judge(request, sts.keys, clock()))
    },
    async fetch(url, init) {
      const request = new Request(url, init)
      // Not text(): workerd warns that a form is no text.
      const body = new TextDecoder().decode(await request.arrayBuffer())
      const { host, pathname, search } = new URL(url)
      const written: [string, string][] = [
        ['host', host],
        ['content-length', String(new TextEncoder().encode(body).length)],
      ]
      const { method } = request
      const headers = [...written, ...request.headers]
      const answer = await sts.answer({ method, target: pathname + search, headers, body })
      return new Response(answer.body, { status: answer.status, headers: answer.headers ?? {} })
    },
  }
  return sts
}

async function judge(request: WireRequest, keys: readonly FakeKey[], now: EpochMilliseconds): Promise<FakeAnswer> {
  const authorization = valuesOf(request, 'authorization')[0]
  if (authorization === undefined) {
    return refusal(403, 'MissingAuthenticationToken', 'Request is missing Authentication Token')
  }
  const parts = Object.fromEntries(
    authorization
      .replace('AWS4-HMAC-SHA256 ', '')
      .split(/, ?/)
      .map((part) => part.split('=', 2) as [string, string]),
  )
  const [accessKeyId = '', date = '', region = '', service = ''] = (parts.Credential ?? '').split('/')
  const scope: Scope = { date, region, service }
  const signedHeaders = (parts.SignedHeaders ?? '').split(';')
  const unsigned = ['host', ...request.headers.map(([name]) => name.toLowerCase())].find(
    (name) => (name === 'host' || name.startsWith('x-amz-')) && !signedHeaders.includes(name),
  )
  if (unsigned !== undefined) {
    return refusal(403, 'SignatureDoesNotMatch', `'${unsigned}' must be a 'SignedHeader' in the AWS Authorization.`)
  }

  const datetime = valuesOf(request, 'x-amz-date')[0] ?? ''
  const stale = staleness(datetime, now)
  if (stale !== null) return refusal(403, 'SignatureDoesNotMatch', stale)
  if (`sts.${region}.amazonaws.com` !== valuesOf(request, 'host')[0] || service !== 'sts') {
    return refusal(403, 'SignatureDoesNotMatch', 'Credential should be scoped to a valid region. ')
  }
  const key = keys.find((candidate) => candidate.accessKeyId === accessKeyId)
  if (key === undefined || valuesOf(request, 'x-amz-security-token')[0] !== key.sessionToken) {
    return refusal(403, 'InvalidClientTokenId', 'The security token included in the request is invalid.')
  }
  if (key.expired) return refusal(403, 'ExpiredToken', 'The security token included in the request is expired')
  const signature = await signatureOf(request, signedHeaders, datetime, scope, key.secretAccessKey)
  if (signature !== parts.Signature || !datetime.startsWith(date)) {
    return refusal(
      403,
      'SignatureDoesNotMatch',
      'The request signature we calculated does not match the signature you provided. Check your AWS Secret Access Key and signing method.',
    )
  }
  // Without the media type of a form there are no parameters.
  const isForm = valuesOf(request, 'content-type')[0]?.startsWith('application/x-www-form-urlencoded') === true
  if (request.method !== 'POST' || request.target !== '/' || !isForm || request.body !== GET_CALLER_IDENTITY) {
    return refusal(400, 'InvalidAction', 'Could not find operation for version 2011-06-15')
  }
  return identityAnswer(key)
}

function staleness(datetime: string, now: EpochMilliseconds): string | null {
  const at = Date.parse(datetime.replace(/^(....)(..)(..T..)(..)(..Z)$/, '$1-$2-$3:$4:$5'))
  if (Number.isNaN(at)) return 'Date must be in ISO-8601 basic format'
  if (at < now - 15 * 60_000)
    return `Signature expired: ${datetime} is now earlier than ${amzDate(now - 15 * 60_000)} (${amzDate(now)} - 15 min.)`
  if (at > now + 5 * 60_000)
    return `Signature not yet current: ${datetime} is still later than ${amzDate(now + 5 * 60_000)} (${amzDate(now)} + 5 min.)`
  return null
}

/** What STS says of a key that it knows. */
export const identityAnswer = ({ arn, userId }: Pick<FakeKey, 'arn' | 'userId'>): FakeAnswer => ({
  status: 200,
  headers: { 'content-type': 'text/xml' },
  body: `<GetCallerIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
  <GetCallerIdentityResult>
    <Arn>${arn}</Arn>
    <UserId>${userId}</UserId>
    <Account>${arn.split(':')[4]}</Account>
  </GetCallerIdentityResult>
  <ResponseMetadata>
    <RequestId>${crypto.randomUUID()}</RequestId>
  </ResponseMetadata>
</GetCallerIdentityResponse>
`,
})

export const refusal = (status: number, code: string, message: string): FakeAnswer => ({
  status,
  headers: { 'content-type': 'text/xml' },
  body: `<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
  <Error>
    <Type>Sender</Type>
    <Code>${code}</Code>
    <Message>${message}</Message>
  </Error>
  <RequestId>${crypto.randomUUID()}</RequestId>
</ErrorResponse>
`,
})

/** `YYYYMMDDTHHMMSSZ` */
export const amzDate = (time: number): string => `${new Date(time).toISOString().replace(/[:-]|\.\d{3}Z$/g, '')}Z`

export interface Signing {
  readonly key: Pick<FakeKey, 'accessKeyId' | 'secretAccessKey' | 'sessionToken'>
  readonly region?: string
  readonly service?: string
  readonly nonce: string
  readonly at: number
  /** Signed beside what is always signed, by name; a value of undefined takes one of those away. */
  readonly headers?: Readonly<Record<string, string | undefined>>
  /** Sent but not signed. */
  readonly unsigned?: Readonly<Record<string, string>>
  readonly body?: string
}

/** The evidence of a runner, signed here: as the real one by default, as odd as wanted otherwise. */
export async function signEvidence(
  signing: Signing,
): Promise<{ region: string; headers: Record<string, string>; body: string }> {
  const { key, region = 'us-east-1', service = 'sts', body = GET_CALLER_IDENTITY } = signing
  const datetime = amzDate(signing.at)
  const standard = {
    Host: `sts.${region}.amazonaws.com`,
    'Content-Type': 'application/x-www-form-urlencoded; charset=utf-8',
    'X-Amz-Date': datetime,
    'X-Muster-Nonce': signing.nonce,
    ...(key.sessionToken === undefined ? {} : { 'X-Amz-Security-Token': key.sessionToken }),
  }
  const headers = Object.entries({ ...standard, ...signing.headers }).filter(
    (header): header is [string, string] => header[1] !== undefined,
  )
  const names = headers.map(([name]) => name.toLowerCase()).sort()
  const date = datetime.slice(0, 8)
  const request = { method: 'POST', target: '/', headers, body }
  const signature = await signatureOf(request, names, datetime, { date, region, service }, key.secretAccessKey)
  const credential = `${key.accessKeyId}/${date}/${region}/${service}/aws4_request`
  const authorization = `AWS4-HMAC-SHA256 Credential=${credential}, SignedHeaders=${names.join(';')}, Signature=${signature}`
  return {
    region,
    headers: { ...Object.fromEntries(headers), Authorization: authorization, ...signing.unsigned },
    body,
  }
}
