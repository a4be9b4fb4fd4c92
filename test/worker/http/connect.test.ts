// Tests the Connect RPC Enroll through the whole Worker: which runner ID it answers, the code of each failure, and
// what its token cannot be used for.
import { env } from 'cloudflare:test'
import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import { Code, ConnectError, createClient } from '@connectrpc/connect'
import { createFetchClient } from '@connectrpc/connect/protocol'
import { createTransport } from '@connectrpc/connect/protocol-connect'
import { beforeEach, describe, expect, test } from 'vitest'
import {
  EnrollRequestSchema,
  EnrollResponseSchema,
  RunnerService,
} from '../../../src/protocol/gen/runner/v1/runner_pb.ts'
import { epochSeconds } from '../../../src/protocol/time.ts'
import { insertBan } from '../../../src/worker/store/bans.ts'
import { revokeToken } from '../../../src/worker/store/tokens.ts'
import { type FakeIssuer, makeIssuer, makeIssuerKey } from '../../fakes/issuer.ts'
import { type ControlPlane, makeControlPlane } from '../enrollment/worker-fixture.ts'
import { openDatabase } from '../store/open-database.ts'

const URL = 'https://muster.example.com/muster.runner.v1.RunnerService/Enroll'
const NODE = 'c0/node-a_example_internal'

let issuer: FakeIssuer
beforeEach(async () => {
  issuer = await makeIssuer('https://a.example.com', await makeIssuerKey('key-a'))
})

const headersWith = (token: string | null, more: Record<string, string> = {}) => ({
  'content-type': 'application/json',
  ...(token === null ? {} : { authorization: `Bearer ${token}` }),
  ...more,
})

const post = (
  controlPlane: ControlPlane,
  token: string | null,
  body: BodyInit = '{}',
  more: Record<string, string> = {},
) => controlPlane.send(new Request(URL, { method: 'POST', body, headers: headersWith(token, more) }))

/** Connect's name of the outcome. */
async function outcome(response: Response): Promise<string> {
  if (response.ok) return 'named'
  const { code, message } = (await response.json()) as { code: string; message?: string }
  expect(response.headers.get('content-type')).toBe('application/json')
  expect(typeof message).toBe('string')
  return code
}

describe('a runner is named', () => {
  test('by its projected token, after its cluster and node', async () => {
    const controlPlane = await makeControlPlane([issuer])
    const response = await post(controlPlane, await issuer.token(controlPlane.seconds()))
    expect(await response.json()).toEqual({ runnerId: NODE })
    expect(await controlPlane.eventOf(response)).toMatchObject({ outcome: 'named', mode: 'kubernetes', runnerId: NODE })
  })

  test('by its minted token, after the ID that it was minted for', async () => {
    const controlPlane = await makeControlPlane([issuer])
    const { token, id } = await controlPlane.mint('runner')
    const response = await post(controlPlane, token)
    expect(await response.json()).toEqual({ runnerId: 'build-7' })
    expect(await controlPlane.eventOf(response)).toMatchObject({ outcome: 'named', identity: id, runnerId: 'build-7' })
    expect((await post(controlPlane, token)).status).toBe(200)
  })

  test('in binary, too', async () => {
    const controlPlane = await makeControlPlane([issuer])
    const body = toBinary(EnrollRequestSchema, create(EnrollRequestSchema, { runnerId: NODE }))
    const type = { 'content-type': 'application/proto' }
    const response = await post(
      controlPlane,
      await issuer.token(controlPlane.seconds()),
      body as Uint8Array<ArrayBuffer>,
      type,
    )
    expect(response.headers.get('content-type')).toBe('application/proto')
    const bytes = new Uint8Array(await response.arrayBuffer())
    expect(fromBinary(EnrollResponseSchema, bytes).runnerId).toBe(NODE)
    // Field 2, as the message says: tag 0x12.
    expect(bytes[0]).toBe(0x12)
  })

  test.each([true, false])("by Connect's own client, binary format: %s", async (useBinaryFormat) => {
    const controlPlane = await makeControlPlane([issuer])
    const transport = createTransport({
      baseUrl: 'https://muster.example.com',
      httpClient: createFetchClient(async (input, init) => {
        const request = new Request(input as Request, init)
        // The client's stream is one of objects; what comes over HTTP is one of bytes.
        return controlPlane.send(new Request(request, { body: await request.arrayBuffer() }))
      }),
      useBinaryFormat,
      interceptors: [],
      acceptCompression: [],
      sendCompression: null,
      compressMinBytes: 0,
      readMaxBytes: 65536,
      writeMaxBytes: 65536,
    })
    const client = createClient(RunnerService, transport)
    const headers = { authorization: `Bearer ${await issuer.token(controlPlane.seconds())}` }
    expect(await client.enroll({}, { headers })).toMatchObject({ runnerId: NODE })
    const error = await client.enroll({}).catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(ConnectError)
    expect((error as ConnectError).code).toBe(Code.Unauthenticated)
  })

  test('with the runner ID that it asks for, if that is its own', async () => {
    const controlPlane = await makeControlPlane([issuer])
    const token = await issuer.token(controlPlane.seconds())
    expect(await outcome(await post(controlPlane, token, JSON.stringify({ runnerId: NODE })))).toBe('named')
    expect(await outcome(await post(controlPlane, token, JSON.stringify({ runner_id: NODE })))).toBe('named')
    expect(await outcome(await post(controlPlane, token, '{"runnerId":""}'))).toBe('named')
    const other = await post(controlPlane, token, '{"runnerId":"c0/node-b"}')
    const body = await other.clone().text()
    expect([other.status, await outcome(other)]).toEqual([403, 'permission_denied'])
    expect(body).toContain('runner_id is not the one that the token proves')
    expect(await controlPlane.eventOf(other)).toMatchObject({ reason: 'runner_id_mismatch', proven: true })
  })

  test('and enrolled nowhere: no certificate, no enrollment', async () => {
    const controlPlane = await makeControlPlane([issuer])
    const count = () => env.DB.prepare('SELECT count(*) AS n FROM enrollment').first<number>('n')
    const before = await count()
    await post(controlPlane, await issuer.token(controlPlane.seconds()))
    expect(await count()).toBe(before)
  })
})

describe('the shape of a token decides', () => {
  test('a JWS-shaped token never reaches the hash lookup', async () => {
    const controlPlane = await makeControlPlane([issuer])
    await post(controlPlane, await issuer.token(controlPlane.seconds()))
    const { token } = await controlPlane.mint('runner')
    for (const jwsShaped of [`${token}..`, `a.${token}.b`, '..', 'a.b.c']) {
      Object.assign(controlPlane.calls, { d1: 0 })
      const response = await post(controlPlane, jwsShaped)
      expect(await outcome(response)).toBe('unauthenticated')
      expect(await controlPlane.eventOf(response)).toMatchObject({ mode: 'kubernetes', reason: 'jws_malformed' })
      // The one call writes the event.
      expect(controlPlane.calls.d1).toBe(1)
    }
  })

  test('any other token never reaches the verifier', async () => {
    const controlPlane = await makeControlPlane([issuer])
    const projected = await issuer.token(controlPlane.seconds())
    for (const other of [`${projected}.`, projected.replace('.', ''), `${projected}..`, 'x', '']) {
      const response = await post(controlPlane, other)
      expect(await outcome(response)).toBe('unauthenticated')
      expect((await controlPlane.eventOf(response))?.reason).toMatch(/^token_/)
    }
    expect([issuer.count(), controlPlane.calls.directory]).toEqual([0, 0])
  })

  test('with no cluster registered a JWS is of an unknown issuer', async () => {
    const controlPlane = await makeControlPlane([])
    const response = await post(controlPlane, await issuer.token(controlPlane.seconds()))
    expect(await outcome(response)).toBe('unauthenticated')
    expect(await controlPlane.eventOf(response)).toMatchObject({ reason: 'issuer_unknown' })
  })
})

describe('unauthenticated is', () => {
  test('every failed proof, in the same words', async () => {
    const controlPlane = await makeControlPlane([issuer])
    const { token: revoked, id } = await controlPlane.mint('runner')
    await revokeToken(openDatabase(env.DB), id, epochSeconds(controlPlane.seconds()))
    const { token: expired } = await controlPlane.mint('runner', { expiresAt: epochSeconds(controlPlane.seconds()) })
    const tokens = [
      await issuer.token(controlPlane.seconds(), { key: await makeIssuerKey('key-a') }),
      await issuer.token(controlPlane.seconds(), { claims: { aud: 'x' } }),
      await issuer.token(controlPlane.seconds() - 1000),
      revoked,
      expired,
      `muster_rt_${'A'.repeat(43)}`,
      null,
    ]
    const bodies = await Promise.all(
      tokens.map(async (token) => {
        const response = await post(controlPlane, token)
        return `${response.status} ${await response.text()}`
      }),
    )
    expect(new Set(bodies).size).toBe(1)
    expect(bodies[0]).toContain('"unauthenticated"')
  })

  test('a bootstrap token, which is not consumed', async () => {
    const controlPlane = await makeControlPlane([issuer])
    const { token } = await controlPlane.mint('bootstrap')
    const response = await post(controlPlane, token)
    expect(await outcome(response)).toBe('unauthenticated')
    expect(await controlPlane.eventOf(response)).toMatchObject({ reason: 'token_wrong_kind' })
    expect((await controlPlane.enroll(token, 'bootstrap-token')).status).toBe(200)
  })

  test.each(['Basic', 'bearer:', 'Token', 'BearerX'])('another scheme: %s', async (scheme) => {
    const controlPlane = await makeControlPlane([issuer])
    const { token } = await controlPlane.mint('runner')
    expect(await outcome(await post(controlPlane, null, '{}', { authorization: `${scheme} ${token}` }))).toBe(
      'unauthenticated',
    )
    expect(await outcome(await post(controlPlane, null, '{}', { authorization: `bEARER ${token}` }))).toBe('named')
  })

  test('a denied node', async () => {
    const controlPlane = await makeControlPlane([issuer], { clusters: [{ denyNodes: ['node-a.example.internal'] }] })
    const response = await post(controlPlane, await issuer.token(controlPlane.seconds()))
    expect(await outcome(response)).toBe('unauthenticated')
    expect(await controlPlane.eventOf(response)).toMatchObject({ reason: 'node_denied' })
  })

  test('a token without a node: there is no ID to give', async () => {
    const controlPlane = await makeControlPlane([issuer], { clusters: [{ nodeOptional: true }] })
    const response = await post(
      controlPlane,
      await issuer.token(controlPlane.seconds(), { workload: { node: undefined } }),
    )
    expect(await outcome(response)).toBe('unauthenticated')
    expect(await controlPlane.eventOf(response)).toMatchObject({ reason: 'runner_id_none' })
  })

  test.each([
    ['that the entry does not name', { namespace: 'runners', serviceAccount: 'compass-runner' }],
    ['of an entry that names none', null],
  ])('a token of a mapped ServiceAccount %s, in the words of a failed proof', async (_, workload) => {
    const controlPlane = await makeControlPlane([issuer], { clusters: [{ workload }] })
    const token = await issuer.token(controlPlane.seconds())
    const response = await post(controlPlane, token)
    expect(await controlPlane.eventOf(response)).toMatchObject({ reason: 'runner_id_none', tenant: 'acme' })
    expect(await response.text()).toBe(await (await post(controlPlane, 'x')).text())
    expect(await (await controlPlane.enroll(token)).json()).toMatchObject({ tenant: 'acme', runnerId: null })
  })
})

describe('unavailable is', () => {
  test('a known cluster without keys, with the time to come back', async () => {
    issuer.manner = 503
    const controlPlane = await makeControlPlane([issuer])
    const response = await post(controlPlane, await issuer.token(controlPlane.seconds()))
    expect([response.status, await outcome(response)]).toEqual([503, 'unavailable'])
    expect(Number(response.headers.get('retry-after'))).toBeGreaterThan(0)
  })

  test('a control plane that is not configured', async () => {
    const controlPlane = await makeControlPlane([issuer], { env: { CA_KEY: undefined as never } })
    expect(await outcome(await post(controlPlane, await issuer.token(controlPlane.seconds())))).toBe('unavailable')
  })

  test('a control plane with a live minted token of a reserved ID', async () => {
    const controlPlane = await makeControlPlane([issuer])
    const { id } = await controlPlane.mint('runner', { runnerId: NODE })
    expect(await outcome(await post(controlPlane, await issuer.token(controlPlane.seconds())))).toBe('unavailable')
    await revokeToken(openDatabase(env.DB), id, epochSeconds(controlPlane.seconds()))
  })

  test('a database that is away', async () => {
    // Every statement fails where D1 would run it.
    const prepare = () => env.DB.prepare('SELECT 1 FROM nowhere')
    const away = { prepare, batch: () => Promise.reject(new Error('D1 is away')) } as unknown as D1Database
    const controlPlane = await makeControlPlane([issuer], { env: { DB: away }, trust: { clusters: [] } })
    const { token } = await controlPlane.mint('runner')
    expect(await outcome(await post(controlPlane, token))).toBe('unavailable')
  })
})

describe('other failures are', () => {
  test('permission_denied for whoever is banned', async () => {
    const controlPlane = await makeControlPlane([issuer])
    const createdAt = epochSeconds(controlPlane.seconds())
    await insertBan(openDatabase(env.DB), { kind: 'runner-id', value: NODE, note: null, createdAt })
    const response = await post(controlPlane, await issuer.token(controlPlane.seconds()))
    expect([response.status, await outcome(response)]).toEqual([403, 'permission_denied'])
    expect(await controlPlane.eventOf(response)).toMatchObject({ reason: 'banned', proven: true })
    await env.DB.exec('DELETE FROM ban')
  })

  test('resource_exhausted for whoever fails too often', async () => {
    const controlPlane = await makeControlPlane([issuer], {
      env: { FAILURES: { limit: async () => ({ success: false }) } as never },
    })
    const response = await post(controlPlane, 'x', '{}', { 'cf-connecting-ip': '192.0.2.1' })
    expect([response.status, await outcome(response)]).toEqual([429, 'resource_exhausted'])
    expect(Number(response.headers.get('retry-after'))).toBeGreaterThan(0)
  })

  test.each([
    ['not JSON', 'x', {}],
    ['an array', '[]', {}],
    ['a number for a string', '{"runnerId":1}', {}],
    ['empty', '', {}],
    ['not a message', '\u0007\u0007\u0007', { 'content-type': 'application/proto' }],
    ['too large', `{"runnerId":"${'x'.repeat(32 * 1024)}"}`, {}],
  ])('invalid_argument for a message that is %s', async (_, body, more) => {
    const controlPlane = await makeControlPlane([issuer])
    const response = await post(
      controlPlane,
      await issuer.token(controlPlane.seconds()),
      body,
      more as Record<string, string>,
    )
    expect([response.status, await outcome(response)]).toEqual([400, 'invalid_argument'])
    expect((await controlPlane.eventOf(response))?.reason).toMatch(/^body_/)
    expect(issuer.count()).toBe(0)
  })

  test('unimplemented for a compressed message, 415 for another media type', async () => {
    const controlPlane = await makeControlPlane([issuer])
    const token = await issuer.token(controlPlane.seconds())
    expect(await outcome(await post(controlPlane, token, '{}', { 'content-encoding': 'gzip' }))).toBe('unimplemented')
    expect((await post(controlPlane, token, '{}', { 'content-type': 'text/plain' })).status).toBe(415)
    expect((await post(controlPlane, token, '{}', { 'content-type': 'application/grpc' })).status).toBe(415)
  })

  test('invalid_argument over http', async () => {
    const controlPlane = await makeControlPlane([issuer])
    const request = new Request(URL.replace('https:', 'http:'), {
      method: 'POST',
      body: '{}',
      headers: headersWith(await issuer.token(controlPlane.seconds())),
    })
    const response = await controlPlane.send(request)
    expect(await outcome(response)).toBe('invalid_argument')
    expect(await controlPlane.eventOf(response)).toMatchObject({ reason: 'https_only' })
  })

  test('405 for another method, 404 for another procedure', async () => {
    const controlPlane = await makeControlPlane([issuer])
    expect((await controlPlane.send(new Request(URL))).status).toBe(405)
    const other = new Request(URL.replace('/Enroll', '/Renew'), { method: 'POST', body: '{}' })
    expect((await controlPlane.send(other)).status).toBe(404)
  })
})

test('a projected token and a runner token open no page that is for operators', async () => {
  const controlPlane = await makeControlPlane([issuer])
  const { token } = await controlPlane.mint('runner')
  for (const path of ['/fleet', '/fleet.json', '/metrics']) {
    for (const bearer of [token, await issuer.token(controlPlane.seconds())]) {
      const request = new Request(`https://muster.example.com${path}`, { headers: headersWith(bearer) })
      expect((await controlPlane.send(request)).status).toBe(404)
    }
  }
})

test('no answer and no event holds the token', async () => {
  const controlPlane = await makeControlPlane([issuer])
  const { token } = await controlPlane.mint('bootstrap')
  for (const secret of [token, await issuer.token(controlPlane.seconds(), { claims: { aud: 'x' } })]) {
    const response = await post(controlPlane, secret)
    const said =
      (await response.text()) +
      JSON.stringify(await controlPlane.eventOf(response)) +
      JSON.stringify([...response.headers])
    expect(said).not.toContain(secret.slice(-40))
    expect(said).not.toContain(secret.slice(0, 40))
  }
})
