// Tests enrollment by Kubernetes tokens through the whole Worker: grants, refusals, and how many calls each costs.
import { env } from 'cloudflare:test'
import { beforeEach, describe, expect, test } from 'vitest'
import type { Problem } from '../../../src/protocol/refusals.ts'
import { epochSeconds } from '../../../src/protocol/time.ts'
import { revokeToken } from '../../../src/worker/store/tokens.ts'
import { type FakeIssuer, makeIssuer, makeIssuerKey } from '../../fakes/issuer.ts'
import { openDatabase } from '../store/open-database.ts'
import { makeControlPlane } from './worker-fixture.ts'

let a: FakeIssuer
let b: FakeIssuer
beforeEach(async () => {
  a = await makeIssuer('https://a.example.com', await makeIssuerKey('key-a'))
  b = await makeIssuer('https://b.example.com', await makeIssuerKey('key-b'))
})

const codeOf = async (response: Response) => (response.ok ? 'granted' : ((await response.json()) as Problem).code)

describe('a projected token', () => {
  test.each(['gke-oidc', 'eks-oidc', 'kubernetes'])('sent as %s enrolls as the node of its cluster', async (mode) => {
    const controlPlane = await makeControlPlane([a])
    const response = await controlPlane.enroll(await a.token(controlPlane.seconds()), mode)
    expect(await response.json()).toMatchObject({
      tenant: 'acme',
      runnerId: 'c0/node-a_example_internal',
      spiffeId: 'spiffe://rootpilot/tenant/acme/runner',
    })
    expect(await controlPlane.eventOf(response)).toMatchObject({
      outcome: 'enrolled',
      mode: 'kubernetes',
      source: 'c0',
      identity: 'system:serviceaccount:runners:runner',
      runnerId: 'c0/node-a_example_internal',
    })
  })

  test('of a mapping of its own enrolls into another tenant of the same cluster', async () => {
    const mapping = { tenant: 'globex', cluster: 'c0', namespace: 'other', serviceAccount: 'runner' }
    const controlPlane = await makeControlPlane([a], { trust: { kubernetesMappings: [mapping] } })
    const changes = { claims: { sub: 'system:serviceaccount:other:runner' }, workload: { namespace: 'other' } }
    expect(await (await controlPlane.enroll(await a.token(controlPlane.seconds(), changes))).json()).toMatchObject({
      tenant: 'globex',
      runnerId: null,
    })
    expect(await codeOf(await controlPlane.enroll(await a.token(controlPlane.seconds())))).toBe('attestation_invalid')
  })

  test('that is mapped to no tenant is refused, and the event names whose it is', async () => {
    const controlPlane = await makeControlPlane([a], { trust: { kubernetesMappings: [] } })
    const response = await controlPlane.enroll(await a.token(controlPlane.seconds()))
    expect(await controlPlane.eventOf(response)).toMatchObject({
      reason: 'tenant_none',
      proven: true,
      tenant: null,
      source: 'c0',
      identity: 'system:serviceaccount:runners:runner',
    })
  })

  test.each([
    ['the ServiceAccount of the entry', { namespace: 'runners', serviceAccount: 'runner' }],
    ['another ServiceAccount', { namespace: 'x', serviceAccount: 'y' }],
  ])('of a denied node is refused, of another node not: %s', async (_, workload) => {
    const controlPlane = await makeControlPlane([a], { clusters: [{ denyNodes: ['node-b'], workload }] })
    const denied = await controlPlane.enroll(
      await a.token(controlPlane.seconds(), { workload: { node: { name: 'node-b' } } }),
    )
    expect(await codeOf(denied)).toBe('attestation_invalid')
    expect(await controlPlane.eventOf(denied)).toMatchObject({ reason: 'node_denied', detail: 'node-b' })
    expect((await controlPlane.enroll(await a.token(controlPlane.seconds()))).status).toBe(200)
  })

  test('of a cluster that was taken out of the trust file is refused', async () => {
    const controlPlane = await makeControlPlane([b])
    const response = await controlPlane.enroll(await a.token(controlPlane.seconds()))
    expect(await codeOf(response)).toBe('attestation_invalid')
    expect(await controlPlane.eventOf(response)).toMatchObject({ reason: 'issuer_unknown', claimed: { iss: a.issuer } })
  })
})

test('the nodes of a cluster have one ServiceAccount and a rate each', async () => {
  const keys: string[] = []
  const limit = async ({ key }: RateLimitOptions) => {
    keys.push(key)
    return { success: true }
  }
  const controlPlane = await makeControlPlane([a], { env: { IDENTITIES: { limit } } })
  for (const name of ['node-a', 'node-b', 'node-a']) {
    await controlPlane.enroll(await a.token(controlPlane.seconds(), { workload: { node: { name } } }))
  }
  const of = (node: string) => `acme/system:serviceaccount:runners:runner/c0/${node}`
  expect(keys).toEqual([of('node-a'), of('node-b'), of('node-a')])
})

test('every failed token gets the same answer, but for request id and time', async () => {
  const controlPlane = await makeControlPlane([a])
  const stranger = await makeIssuerKey('key-a')
  const tokens = [
    await a.token(controlPlane.seconds(), { key: stranger }),
    await a.token(controlPlane.seconds(), { claims: { aud: 'x' } }),
    await a.token(controlPlane.seconds(), { claims: { iss: 'https://x.example.com' } }),
    await a.token(controlPlane.seconds(), { claims: { exp: undefined } }),
    await a.token(controlPlane.seconds(), { header: { kid: 'x' } }),
    await a.token(controlPlane.seconds(), {
      workload: { serviceaccount: { name: 'x' } },
      claims: { sub: 'system:serviceaccount:runners:x' },
    }),
    'a.b.c',
    'x',
  ]
  const answers = await Promise.all(
    tokens.map(async (token) => {
      const response = await controlPlane.enroll(token)
      const { requestId, serverTime, ...rest } = (await response.json()) as Problem
      return JSON.stringify([response.status, rest, requestId.length, serverTime])
    }),
  )
  expect(new Set(answers).size).toBe(1)
})

describe('calls for each token', () => {
  test('a token whose keys are in isolate memory makes no call to KV, the object or D1 before the reserve step', async () => {
    const controlPlane = await makeControlPlane([a], { trust: { kubernetesMappings: [] } })
    await controlPlane.enroll(await a.token(controlPlane.seconds()))
    Object.assign(controlPlane.calls, { kv: 0, directory: 0, d1: 0 })
    // Proven, but of no tenant: refused where the reserve step would come next. The one call writes the event.
    const response = await controlPlane.enroll(await a.token(controlPlane.seconds()))
    expect(await controlPlane.eventOf(response)).toMatchObject({ reason: 'tenant_none' })
    expect(controlPlane.calls).toEqual({ kv: 0, directory: 0, d1: 1 })
  })

  test('40 tokens with forged kids cause one refetch, and one call to the object', async () => {
    const controlPlane = await makeControlPlane([a])
    await controlPlane.enroll(await a.token(controlPlane.seconds()))
    const [asked, questions] = [a.count(), controlPlane.calls.directory]
    for (let i = 0; i < 40; i++) {
      const forged = await a.token(controlPlane.seconds(), { header: { kid: `forged-${i}` } })
      expect(await codeOf(await controlPlane.enroll(forged))).toBe('attestation_invalid')
    }
    expect(a.count() - asked).toBe(2)
    expect(controlPlane.calls.directory - questions).toBe(1)
  })

  test('an unknown issuer causes no network call and no call to the object', async () => {
    const controlPlane = await makeControlPlane([a])
    await controlPlane.enroll(
      await a.token(controlPlane.seconds(), { claims: { iss: 'https://attacker.example.com' } }),
    )
    expect([a.count(), controlPlane.strays, controlPlane.calls.kv, controlPlane.calls.directory]).toEqual([0, [], 0, 0])
  })
})

describe('keys that cannot be fetched', () => {
  test('of a registered issuer that is down are 503 with Retry-After', async () => {
    a.manner = 503
    const controlPlane = await makeControlPlane([a])
    const response = await controlPlane.enroll(await a.token(controlPlane.seconds()))
    expect([response.status, await codeOf(response)]).toEqual([503, 'keys_unavailable'])
    expect(Number(response.headers.get('retry-after'))).toBeGreaterThan(0)
    expect(await controlPlane.eventOf(response)).toMatchObject({ reason: 'keys_never_fetched' })
    a.manner = 'serve'
    controlPlane.later(10)
    expect((await controlPlane.enroll(await a.token(controlPlane.seconds()))).status).toBe(200)
  })

  test('do not hide a bad signature of a cluster whose keys are there', async () => {
    b.manner = 'refuse'
    const controlPlane = await makeControlPlane([a, b])
    const forged = await a.token(controlPlane.seconds(), { key: await makeIssuerKey('key-a') })
    expect(await codeOf(await controlPlane.enroll(forged))).toBe('attestation_invalid')
    expect(await codeOf(await controlPlane.enroll(await b.token(controlPlane.seconds())))).toBe('keys_unavailable')
  })

  test('because the object does not answer are an outage', async () => {
    const away = { getByName: () => ({ ask: async () => Promise.reject(new Error('reset')) }) }
    const controlPlane = await makeControlPlane([a], { env: { KEY_DIRECTORY: away as never } })
    expect(await codeOf(await controlPlane.enroll(await a.token(controlPlane.seconds())))).toBe('upstream_unavailable')
  })
})

test('a rotated key verifies after the refetch that it causes', async () => {
  const controlPlane = await makeControlPlane([a])
  await controlPlane.enroll(await a.token(controlPlane.seconds()))
  await a.rotate()
  expect((await controlPlane.enroll(await a.token(controlPlane.seconds()))).status).toBe(200)
})

test('a key that is gone upstream stops with the refresh, and its tokens with it', async () => {
  const controlPlane = await makeControlPlane([a])
  const old = await a.token(controlPlane.seconds())
  expect((await controlPlane.enroll(old)).status).toBe(200)
  await a.rotate({ keepOld: false })
  await controlPlane.directory.refresh()
  controlPlane.later(60)
  expect(await codeOf(await controlPlane.enroll(old))).toBe('attestation_invalid')
})

test.each([
  ['first', 0],
  ['second', 1],
])('a copied signing key stops both clusters, asked about the %s one first, until it goes', async (_, first) => {
  b.keys = [{ ...(a.keys[0] as (typeof a.keys)[0]), kid: 'copied' }]
  const controlPlane = await makeControlPlane([a, b])
  const tokens = async () => {
    const both = [await a.token(controlPlane.seconds()), await b.token(controlPlane.seconds())]
    return first === 0 ? both : both.reverse()
  }
  const codes = async () => {
    const all = []
    for (const token of await tokens()) all.push(await codeOf(await controlPlane.enroll(token)))
    return all
  }
  expect(await codes()).toEqual(['keys_unavailable', 'keys_unavailable'])
  b.keys = [await makeIssuerKey('own')]
  await controlPlane.directory.refresh()
  controlPlane.later(10)
  expect(await codes()).toEqual(['granted', 'granted'])
})

describe('a live minted token with a reserved ID', () => {
  test('blocks enrollment while clusters are registered, until it is revoked', async () => {
    const controlPlane = await makeControlPlane([a])
    const { id } = await controlPlane.mint('runner', { runnerId: 'c0/node-a' })
    const response = await controlPlane.enroll(await a.token(controlPlane.seconds()))
    expect([response.status, await codeOf(response)]).toEqual([503, 'not_configured'])
    expect(await controlPlane.eventOf(response)).toMatchObject({ reason: 'slash_in_runner_id' })
    await revokeToken(openDatabase(env.DB), id, epochSeconds(controlPlane.seconds()))
    controlPlane.later(10)
    expect((await controlPlane.enroll(await a.token(controlPlane.seconds()))).status).toBe(200)
  })

  test('that expired blocks no enrollment', async () => {
    const controlPlane = await makeControlPlane([a])
    await controlPlane.mint('runner', { runnerId: 'c0/node-b', expiresAt: epochSeconds(controlPlane.seconds()) })
    expect((await controlPlane.enroll(await a.token(controlPlane.seconds()))).status).toBe(200)
  })

  test('is looked for in an index of its own', async () => {
    const plan = await env.DB.prepare(
      `EXPLAIN QUERY PLAN SELECT runner_id FROM token WHERE kind = 'runner' AND revoked_at IS NULL
        AND instr("token"."runner_id", '/') > 0 AND (expires_at IS NULL OR expires_at > 1) LIMIT 1`,
    ).all<{ detail: string }>()
    expect(plan.results.map(({ detail }) => detail).join()).toContain('token_reserved_id')
  })
})
