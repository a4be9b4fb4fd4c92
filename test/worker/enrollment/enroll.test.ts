// Tests POST /api/enroll through the whole Worker: grants, refusals, and what is recorded of them.
import 'reflect-metadata'
import { createExecutionContext, env, waitOnExecutionContext } from 'cloudflare:test'
import * as x509 from '@peculiar/x509'
import { beforeAll, describe, expect, test } from 'vitest'
import { createCa } from '../../../src/cli/ca/create.ts'
import type { EnrollAnswer } from '../../../src/protocol/enroll.ts'
import type { Problem } from '../../../src/protocol/refusals.ts'
import { type EpochMilliseconds, epochMilliseconds, seconds, toEpochSeconds } from '../../../src/protocol/time.ts'
import { hashToken, mintToken, type TokenKind } from '../../../src/protocol/tokens.ts'
import { uuidv7 } from '../../../src/protocol/uuid.ts'
import { type Composition, compose } from '../../../src/worker/compose.ts'
import type { Env } from '../../../src/worker/env.ts'
import { findEvent, listEvents } from '../../../src/worker/store/events.ts'
import { insertToken, revokeToken } from '../../../src/worker/store/tokens.ts'
import { enrollBody, makeKeys, makeRequester, type Requester } from '../../fakes/requester.ts'
import { clusterWith, trustWith } from '../../fakes/trust.ts'
import { openDatabase } from '../store/open-database.ts'

const db = openDatabase(env.DB)
let now: EpochMilliseconds = epochMilliseconds(Date.UTC(2026, 10, 29, 12))
let muster: Composition
let bindings: Env

beforeAll(async () => {
  const ca = await createCa({ now: toEpochSeconds(now), development: false })
  // No rate limiter, as under `muster dev`.
  const { FAILURES, IDENTITIES, TENANTS, ...unlimited } = env as unknown as Env
  bindings = { ...unlimited, CA_KEY: ca.issuingKey, CA_CERT: ca.issuing }
  muster = compose(trustWith(), undefined, () => now)
})

interface Answered {
  readonly status: number
  readonly headers: Headers
  readonly text: string
}

async function post(body: string | Uint8Array, init: { url?: string; type?: string | null } = {}): Promise<Answered> {
  const context = createExecutionContext()
  const { url = 'https://muster.example.com/api/enroll', type = 'application/json' } = init
  const request = new Request(url, { method: 'POST', body, headers: type === null ? {} : { 'content-type': type } })
  if (type === null) request.headers.delete('content-type')
  const response = await muster.fetch(request, bindings, context)
  const text = await response.text()
  await waitOnExecutionContext(context)
  return { status: response.status, headers: response.headers, text }
}

const enroll = async (requester: Requester, token: string, extra: object = {}): Promise<Answered> =>
  post(JSON.stringify({ ...enrollBody(requester, { mode: 'bootstrap-token', token }), ...extra }))

const answer = ({ text }: Answered): EnrollAnswer => JSON.parse(text)
const problem = ({ text }: Answered): Problem => JSON.parse(text)

async function mint(
  kind: TokenKind = 'bootstrap',
  ttl = 3600,
  tenant = 'acme',
): Promise<{ token: string; id: string }> {
  const token = mintToken(kind)
  const id = uuidv7(now)
  const createdAt = toEpochSeconds(now)
  await insertToken(db, {
    id,
    hash: await hashToken(token),
    kind,
    tenant,
    createdAt,
    expiresAt: (createdAt + ttl) as typeof createdAt,
  })
  return { token, id }
}

const later = (by: number) => {
  now = epochMilliseconds(now + seconds(by) * 1000)
}

describe('a runner with a token', () => {
  test('gets a certificate for its own key and the tenant of the token', async () => {
    const requester = await makeRequester()
    const { token } = await mint()
    const answered = await enroll(requester, token)
    expect(answered.status).toBe(200)
    const granted = answer(answered)
    expect(granted).toMatchObject({
      version: 1,
      tenant: 'acme',
      runnerId: null,
      spiffeId: 'spiffe://rootpilot/tenant/acme/runner',
    })
    expect(Date.parse(granted.notAfter) - Date.parse(granted.serverTime)).toBe(15 * 60 * 1000)
    const leaf = new x509.X509Certificate(granted.certificate)
    expect(new Uint8Array(leaf.publicKey.rawData)).toEqual(requester.spki)
    expect(leaf.subject).toContain(granted.enrollmentId)
    expect(leaf.getExtension(x509.BasicConstraintsExtension)?.ca).toBe(false)
  })

  test('gets the same enrollment when it asks again with the same key within ten minutes', async () => {
    const requester = await makeRequester()
    const { token } = await mint()
    const first = answer(await enroll(requester, token))
    later(600)
    const again = answer(await enroll(requester, token))
    expect(again.enrollmentId).toBe(first.enrollmentId)
    later(1)
    expect(problem(await enroll(requester, token)).code).toBe('attestation_invalid')
  })

  test('asking for CA:TRUE and other names gets a certificate with neither', async () => {
    const requester = await makeRequester({
      name: 'CN=root, O=system:masters',
      extensions: [
        new x509.BasicConstraintsExtension(true, 5, true),
        new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign, true),
        new x509.SubjectAlternativeNameExtension([
          { type: 'url', value: 'spiffe://rootpilot/tenant/globex/runner' },
          { type: 'dns', value: 'evil.example.com' },
        ]),
      ],
    })
    const { token } = await mint()
    const leaf = new x509.X509Certificate(answer(await enroll(requester, token)).certificate)
    expect(leaf.getExtension(x509.BasicConstraintsExtension)?.ca).toBe(false)
    expect(leaf.getExtension(x509.KeyUsagesExtension)?.usages).toBe(x509.KeyUsageFlags.digitalSignature)
    expect(leaf.getExtension(x509.SubjectAlternativeNameExtension)?.names.toJSON()).toEqual([
      { type: 'url', value: 'spiffe://rootpilot/tenant/acme/runner' },
    ])
    expect(leaf.subject).not.toContain('system:masters')
  })

  test('of 50 parallel requests with one token and 50 keys one gets a certificate', async () => {
    const { token } = await mint()
    const requesters = await Promise.all(Array.from({ length: 50 }, () => makeRequester()))
    const answers = await Promise.all(requesters.map((requester) => enroll(requester, token)))
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1)
    expect(answers.filter(({ status }) => status === 401)).toHaveLength(49)
  })
})

describe('a failed attestation', () => {
  const cases: Record<string, () => Promise<string>> = {
    token_unknown: async () => mintToken('bootstrap'),
    token_malformed: async () => 'muster_bt_short',
    token_wrong_kind: async () => (await mint('runner')).token,
    token_expired: async () => (await mint('bootstrap', 0)).token,
    token_revoked: async () => {
      const { token, id } = await mint()
      await revokeToken(db, id, toEpochSeconds(now))
      return token
    },
    token_used: async () => {
      const { token } = await mint()
      await enroll(await makeRequester(), token)
      return token
    },
    tenant_none: async () => (await mint('bootstrap', 3600, 'gone')).token,
  }

  test('gets the same answer whatever failed, and its event names the reason', async () => {
    const answers = new Set<string>()
    for (const [reason, make] of Object.entries(cases)) {
      later(60)
      const refused = await enroll(await makeRequester(), await make())
      expect(refused.status).toBe(401)
      const { requestId, serverTime, ...rest } = problem(refused)
      expect(serverTime).not.toBe('')
      answers.add(JSON.stringify(rest))
      expect((await findEvent(db, requestId))?.reason).toBe(reason)
      expect(refused.headers.get('x-request-id')).toBe(requestId)
    }
    expect(answers.size).toBe(1)
  })

  test('burns no token: one that was refused for its CSR serves afterwards', async () => {
    const { token } = await mint()
    const requester = await makeRequester({ challenge: 'another' })
    expect(problem(await enroll(requester, token)).code).toBe('nonce_mismatch')
    expect((await enroll(await makeRequester(), token)).status).toBe(200)
  })

  test('a nonce made for another key is refused', async () => {
    const { token } = await mint()
    const other = await makeRequester()
    const requester = await makeRequester({ keys: await makeKeys(), challenge: other.challengeNonce })
    expect(problem(await enroll({ ...requester, challengeNonce: other.challengeNonce }, token)).code).toBe(
      'nonce_mismatch',
    )
  })

  test('leaves no token, nonce or CSR in any event', async () => {
    const { token } = await mint()
    const requester = await makeRequester()
    await enroll(requester, token)
    await enroll(await makeRequester(), token)
    const events = JSON.stringify(await listEvents(db, 1000))
    expect(events).not.toContain(token.slice(10))
    expect(events).not.toContain(requester.challengeNonce)
    expect(events).not.toContain('CERTIFICATE REQUEST')
  })
})

describe('a request out of shape', () => {
  const body = (changes: object) =>
    JSON.stringify({
      version: 1,
      attestation: { mode: 'bootstrap-token', token: 't' },
      csr: 'c',
      challengeNonce: 'n',
      ...changes,
    })

  test.each<[string, string | Uint8Array, number, string]>([
    ['nothing', '', 400, 'request_malformed'],
    ['not JSON', 'hello', 400, 'request_malformed'],
    ['a key twice', '{"version":1,"version":1}', 400, 'request_malformed'],
    ['not UTF-8', new Uint8Array([0x7b, 0xff, 0x7d]), 400, 'request_malformed'],
    ['deep nesting', '['.repeat(9000), 400, 'request_malformed'],
    ['another version', body({ version: 2 }), 400, 'request_malformed'],
    ['an unknown mode', body({ attestation: { mode: 'tpm' } }), 400, 'request_malformed'],
    [
      'a mode named like a method of every object',
      body({ attestation: { mode: 'constructor' } }),
      400,
      'request_malformed',
    ],
    [
      'a field too many in the evidence',
      body({ attestation: { mode: 'bootstrap-token', token: 't', url: 'u' } }),
      400,
      'request_malformed',
    ],
    ['a CSR that is none', body({}), 400, 'csr_invalid'],
    ['33 KiB', body({ instanceId: 'x'.repeat(33 * 1024) }), 413, 'request_too_large'],
  ])('%s is refused with its code and never a 500', async (_, text, status, code) => {
    later(60)
    const refused = await post(text)
    expect(refused.status).toBe(status)
    expect(refused.headers.get('content-type')).toBe('application/problem+json')
    expect(problem(refused)).toMatchObject({ code, status, type: `urn:muster:${code}` })
    expect((await findEvent(db, problem(refused).requestId))?.outcome).toBe('refused')
  })

  test('exactly 32 KiB are read', async () => {
    const text = body({})
    expect(problem(await post(text.padEnd(32 * 1024, ' '))).code).toBe('csr_invalid')
    expect(problem(await post(text.padEnd(32 * 1024 + 1, ' '))).code).toBe('request_too_large')
  })

  test.each(['text/plain', 'application/json; charset=latin1', 'application/jsonx', null])(
    'media type %s is not taken',
    async (type) => {
      expect(problem(await post(body({}), { type })).code).toBe('media_type_unsupported')
    },
  )

  test.each(['application/json', 'Application/JSON', 'application/json; charset=utf-8'])(
    'media type %s is taken',
    async (type) => {
      expect(problem(await post(body({}), { type })).code).toBe('csr_invalid')
    },
  )

  test('plain http is refused before the body is read', async () => {
    const refused = await post(new Uint8Array(100_000), { url: 'http://muster.example.com/api/enroll' })
    expect(problem(refused)).toMatchObject({ code: 'request_malformed', detail: 'https only' })
  })
})

describe('the other routes', () => {
  const get = async (path: string) =>
    muster.fetch(new Request(`https://muster.example.com${path}`), bindings, createExecutionContext())

  test('/readyz says which trust file is live, and what is missing', async () => {
    expect(await (await get('/readyz')).json()).toMatchObject({ ready: true, trust: 'a'.repeat(64) })
    const bare = compose(trustWith(), undefined, () => now)
    const answered = await bare.fetch(
      new Request('https://x/readyz'),
      { ...bindings, CA_KEY: '' },
      createExecutionContext(),
    )
    expect(answered.status).toBe(503)
    expect(await answered.text()).toContain('CA_KEY')
  })

  test('/readyz tells nobody the runner ID of a token that is in the way', async () => {
    const runnerId = 'lab/node-7'
    const id = uuidv7(now)
    const row = {
      id,
      hash: 'x'.repeat(64),
      kind: 'runner',
      tenant: 'acme',
      runnerId,
      createdAt: toEpochSeconds(now),
    } as const
    await insertToken(db, row)
    const clustered = compose(trustWith({ clusters: [clusterWith()] }), undefined, () => now)
    const answered = await clustered.fetch(new Request('https://x/readyz'), bindings, createExecutionContext())
    const text = await answered.text()
    await revokeToken(db, id, toEpochSeconds(now))
    expect([answered.status, text.includes('reserved')]).toEqual([503, true])
    for (const hidden of [runnerId, 'node-7', id]) expect(text).not.toContain(hidden)
  })

  test('/readyz says so when the CA has less than one certificate lifetime left', async () => {
    const late = compose(trustWith(), undefined, () => epochMilliseconds(now + 3 * 365 * 24 * 3600 * 1000))
    const answered = await late.fetch(new Request('https://x/readyz'), bindings, createExecutionContext())
    expect(answered.status).toBe(503)
    expect(await answered.text()).toContain('CA_CERT ended')
  })

  test('without a CA an enrollment is refused before its token is looked at', async () => {
    const bare = compose(trustWith(), undefined, () => now)
    const { token } = await mint()
    const body = JSON.stringify(enrollBody(await makeRequester(), { mode: 'bootstrap-token', token }))
    const request = new Request('https://x/api/enroll', {
      method: 'POST',
      body,
      headers: { 'content-type': 'application/json' },
    })
    const answered = await bare.fetch(request, { ...bindings, CA_CERT: '' }, createExecutionContext())
    expect(await answered.json()).toMatchObject({ code: 'not_configured', status: 503 })
    expect((await enroll(await makeRequester(), token)).status).toBe(200)
  })

  test('/api/bundle is a SPIFFE bundle of the roots', async () => {
    const bundle = await (await get('/api/bundle')).json<{
      keys: { use: string; x5c: string[] }[]
      spiffe_sequence: number
      spiffe_refresh_hint: number
    }>()
    expect(bundle.keys).toHaveLength(1)
    expect(bundle.keys[0]?.use).toBe('x509-svid')
    expect(bundle.spiffe_sequence).toBeGreaterThan(0)
    expect(await (await get('/api/bundle.pem')).text()).toContain('BEGIN CERTIFICATE')
  })

  test('a path that nothing is served at is a 404 problem', async () => {
    const answered = await get('/nothing')
    expect(answered.status).toBe(404)
    expect(await answered.json()).toMatchObject({ code: 'not_found' })
  })
})
