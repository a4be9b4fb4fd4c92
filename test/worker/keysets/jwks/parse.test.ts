// Tests the readers of key sets and discovery documents on real and broken ones: which keys are used, which are not.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { decodeBase64url, encodeBase64url } from '../../../../src/protocol/bytes.ts'
import type { Json } from '../../../../src/protocol/strict-json.ts'
import { milliseconds } from '../../../../src/protocol/time.ts'
import type { Cluster } from '../../../../src/trust/modes/kubernetes.ts'
import { fetchKeySet } from '../../../../src/worker/keysets/jwks/fetch.ts'
import { parseKeySet } from '../../../../src/worker/keysets/jwks/parse.ts'
import { fetchFrom, makeIssuer, makeIssuerKey } from '../../../fakes/issuer.ts'
import { clusterWith } from '../../../fakes/trust.ts'

const files = import.meta.glob<string>('../../../cases/oidc/**/*', { query: '?raw', import: 'default', eager: true })
const textOf = (name: string): string => {
  const text = files[`../../../cases/oidc/${name}`]
  if (text === undefined) throw new Error(`no case file ${name}`)
  return text
}
const jsonOf = (name: string) => JSON.parse(textOf(name))

const GKE = jsonOf('clusters.json').gke.issuer as string
const GKE_KID = jsonOf('clusters.json').gke.kid as string
const BRIEFLY = milliseconds(50)

/** The issuer's documents as given, on the issuer's own addresses. */
async function loadAs(cluster: Cluster, jwks: string, discovery?: Record<string, unknown>, status = 200) {
  const issuer = await makeIssuer(cluster.issuer, await makeIssuerKey('unused'))
  issuer.jwks = jwks
  issuer.discovery = discovery ?? {}
  if (status !== 200) issuer.manner = status
  return fetchKeySet(cluster, issuer.fetch, BRIEFLY)
}

const gke = clusterWith({ issuer: GKE })

describe('an odd key set', () => {
  const EXPECTED: Record<string, string[] | 'failed'> = {
    'mixed-kty.json': [GKE_KID],
    'no-alg-no-use.json': [GKE_KID],
    'duplicate-kid-same-key.json': [GKE_KID],
    'duplicate-kid-different-keys.json': [],
    'empty-kid.json': [],
    'missing-kid.json': [],
    'kid-number.json': [],
    'kid-proto.json': ['__proto__'],
    'x5c-extra.json': [GKE_KID],
    'key-ops-sign-only.json': [],
    'private-key-published.json': [],
    'rsa-1024.json': [],
    'rsa-e1.json': [],
    'not-an-array.json': 'failed',
    'null-entry.json': [GKE_KID],
    'bare-array.json': 'failed',
    'bom.json': [GKE_KID],
    'leading-newlines.json': [GKE_KID],
    'html.html': 'failed',
    'status-401.json': 'failed',
    'status-403.json': 'failed',
  }

  test.each(jsonOf('odd-jwks/index.json') as { file: string; why: string; status?: number }[])(
    '$file: $why',
    async ({ file, status }) => {
      const expected = EXPECTED[file.replace('odd-jwks/', '')]
      const result = await loadAs(gke, textOf(file), {}, status)
      if (expected === 'failed') {
        expect(result).toMatchObject({ ok: false, error: { reason: 'keys_fetch_failed' } })
      } else {
        expect(result.ok && result.value.keys.map(({ kid }) => kid)).toEqual(expected)
      }
    },
  )

  test('says which keys were published with their private half, under whatever kid', async () => {
    const { keys } = jsonOf('odd-jwks/private-key-published.json') as { keys: Record<string, string>[] }
    const [{ kid: _, d: __, p, q, dp, dq, qi, ...known }] = keys as [Record<string, string>]
    const set = await parseKeySet({ keys: [...keys, { ...known, kid: 'again' }] } as unknown as Json)
    expect(set?.keys).toEqual([])
    expect(set?.exposed).toHaveLength(1)
    expect(set?.thumbprints).toEqual(set?.exposed)
    expect([p, q, dp, dq, qi].every((part) => part !== undefined)).toBe(true)
  })

  test('has 100 keys at most', async () => {
    const { publicJwk } = await makeIssuerKey('one')
    const list = (length: number) => ({ keys: Array.from({ length }, (_, i) => ({ ...publicJwk, kid: `k${i}` })) })
    expect((await parseKeySet(list(100) as unknown as Json))?.keys).toHaveLength(100)
    expect(await parseKeySet(list(101) as unknown as Json)).toBeNull()
  })

  test('never makes a parser throw', async () => {
    const member = fc.oneof(fc.string(), fc.constantFrom('RSA', 'EC', 'P-256', 'sig', 'RS256', 'AQAB'), fc.jsonValue())
    const key = fc.dictionary(
      fc.constantFrom('kty', 'crv', 'n', 'e', 'x', 'y', 'kid', 'use', 'alg', 'd', 'key_ops'),
      member,
    )
    await fc.assert(
      fc.asyncProperty(
        fc.oneof(fc.jsonValue(), fc.record({ keys: fc.array(fc.oneof(key, fc.jsonValue())) })),
        async (set) => {
          await parseKeySet(set as Json)
        },
      ),
      { numRuns: 200 },
    )
  })
})

describe('a key', () => {
  const setOf = (...keys: object[]) => parseKeySet({ keys } as unknown as Json)

  test('of P-256 whose coordinate lost its leading zero is not used, but is recognised as a copy', async () => {
    const [short] = jsonOf('es256/jwks-x-31-bytes.json').keys
    const [whole] = jsonOf('es256/jwks.json').keys
    expect((await setOf(short))?.keys).toEqual([])
    expect((await setOf(whole))?.keys).toHaveLength(1)
    expect((await setOf(short))?.thumbprints).toEqual((await setOf(whole))?.thumbprints)
  })

  test('off the curve is skipped and takes no other key with it', async () => {
    const { publicJwk } = await makeIssuerKey('one')
    const set = await setOf({ ...publicJwk, x: publicJwk.y, kid: 'off' }, { ...publicJwk, kid: 'on' })
    expect(set?.keys.map(({ kid }) => kid)).toEqual(['on'])
  })

  test('that is not for signatures, or not for this algorithm, is skipped', async () => {
    const { publicJwk } = await makeIssuerKey('one')
    const unfit = [{ use: 'enc' }, { use: 1 }, { alg: 'RS256' }, { alg: 'ES384' }, { alg: null }, { key_ops: 'verify' }]
    for (const members of unfit) expect((await setOf({ ...publicJwk, kid: 'a', ...members }))?.keys).toEqual([])
    expect((await setOf({ ...publicJwk, kid: 'a', key_ops: ['verify'], ext: false }))?.keys).toHaveLength(1)
  })

  test('of more than 8192 bits is skipped', async () => {
    const [{ n }] = jsonOf('gke/jwks.json').keys
    const huge = (times: number) => ({ kty: 'RSA', e: 'AQAB', kid: 'a', n: (n as string).slice(0, 340).repeat(times) })
    expect((await setOf(huge(5)))?.keys).toEqual([])
    expect((await setOf(huge(4)))?.keys).toHaveLength(1)
  })

  test('is one key however its numbers are padded', async () => {
    const [key] = jsonOf('gke/jwks.json').keys
    const padded = encodeBase64url(new Uint8Array([0, ...(decodeBase64url(key.n) ?? [])]))
    expect(padded).not.toBe(key.n)
    expect((await setOf({ ...key, n: padded }))?.thumbprints).toEqual((await setOf(key))?.thumbprints)
  })
})

describe('a discovery document', () => {
  const ACCEPTED = ['minimal.json', 'alg-list-es.json']
  const cases = (
    jsonOf('odd-discovery/index.json') as { file: string; why: string; configuredIssuer: string }[]
  ).filter(({ file }) => file.endsWith('.json'))

  test.each(cases)('$file: $why', async ({ file, configuredIssuer }) => {
    const cluster = clusterWith({ issuer: configuredIssuer })
    const issuer = await makeIssuer(configuredIssuer)
    const asked: string[] = []
    const document = jsonOf(file)
    const result = await fetchKeySet(cluster, async (url, init) => {
      asked.push(url)
      if (url.endsWith('/.well-known/openid-configuration')) return Response.json(document)
      return url === document.jwks_uri ? new Response(textOf('gke/jwks.json')) : issuer.fetch(url, init)
    })
    if (ACCEPTED.includes(file.replace('odd-discovery/', ''))) {
      expect(result.ok && result.value.keys.map(({ kid }) => kid)).toEqual([GKE_KID])
    } else {
      expect(result.ok).toBe(false)
      expect(asked).toEqual([`${configuredIssuer}/.well-known/openid-configuration`])
    }
  })

  test('with a foreign jwks_uri is refused, and the remedy named', async () => {
    const result = await loadAs(gke, '{"keys":[]}', { jwks_uri: 'https://10.0.0.5:6443/openid/v1/jwks' })
    expect(result).toMatchObject({
      ok: false,
      error: {
        reason: 'jwks_uri_refused',
        detail: 'jwks_uri is not on container.googleapis.com: set jwksURI or jwksFile',
      },
    })
  })

  test('from the API server of an EKS cluster points inside the cluster and is refused', async () => {
    const { issuer, jwks_uri } = jsonOf('eks-from-api-server/openid-configuration.json')
    const result = await loadAs(clusterWith({ issuer }), '{"keys":[]}', { jwks_uri })
    expect(result).toMatchObject({ error: { reason: 'jwks_uri_refused' } })
  })

  test('another port of the same host is another server', async () => {
    const result = await loadAs(gke, '{"keys":[]}', { jwks_uri: 'https://container.googleapis.com:8443/keys' })
    expect(result).toMatchObject({ error: { reason: 'jwks_uri_refused' } })
  })

  test.each(['eks', 'gke', 'aks', 'kops-s3', 'es256'])('of %s leads to its keys', async (name) => {
    const { issuer, kid, contentType } = jsonOf('clusters.json')[name]
    const document = jsonOf(`${name}/openid-configuration.json`)
    const result = await fetchKeySet(clusterWith({ issuer }), async (url) => {
      if (url === `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`) return Response.json(document)
      if (url !== document.jwks_uri) return new Response('not found', { status: 404 })
      return new Response(textOf(`${name}/jwks.json`), { headers: { 'content-type': contentType } })
    })
    expect(result.ok && result.value.keys.map((key) => key.kid)).toContain(kid)
  })
})

describe('an issuer', () => {
  const load = async (manner: Parameters<typeof Object.assign>[0], cluster = gke) => {
    const issuer = await makeIssuer(cluster.issuer)
    Object.assign(issuer, manner)
    return { issuer, result: await fetchKeySet(cluster, issuer.fetch, BRIEFLY) }
  }

  test.each(['stall', 'trickle', 'refuse', 'redirect', 'bloat', 'html', 500, 503, 429, 401, 204, 206, 304, 526])(
    'that answers with %s has no key set',
    async (manner) => {
      const { result } = await load({ manner })
      expect(result).toMatchObject({ ok: false, error: { reason: 'keys_fetch_failed' } })
    },
  )

  test('is not followed to where it redirects', async () => {
    const { issuer } = await load({ manner: 'redirect' })
    const { fetch, strays } = fetchFrom(issuer)
    const modes: unknown[] = []
    await fetchKeySet(gke, async (url, init) => {
      modes.push(init.redirect)
      return fetch(url, init)
    })
    expect(modes).toEqual(['manual'])
    expect(strays).toEqual([])
  })

  test('whose key set has one byte too many is refused, and taken with one less', async () => {
    const body = (length: number) => `{"keys":[]}${' '.repeat(length - 11)}`
    expect((await load({ jwks: body(1024 * 1024) })).result.ok).toBe(true)
    expect((await load({ jwks: body(1024 * 1024 + 1) })).result.ok).toBe(false)
  })

  test('that offers its key set as application/jwk-set+json alone is taken', async () => {
    const { issuer, result } = await load({})
    expect(result.ok).toBe(true)
    const strict = await issuer.fetch(`${GKE}/openid/v1/jwks`, { headers: { accept: 'application/json' } })
    expect(strict.status).toBe(406)
  })

  test('is asked for its key set alone where the trust file says where it is', async () => {
    const cluster = clusterWith({ issuer: GKE, keys: { from: 'uri', uri: 'https://keys.example.com/jwks' } })
    const asked: string[] = []
    const result = await fetchKeySet(cluster, async (url) => {
      asked.push(url)
      return new Response(textOf('gke/jwks.json'))
    })
    expect(result.ok).toBe(true)
    expect(asked).toEqual(['https://keys.example.com/jwks'])
  })

  test('is not asked at all where the key set is bundled', async () => {
    const cluster = clusterWith({ issuer: GKE, keys: { from: 'file', jwks: jsonOf('gke/jwks.json') } })
    const result = await fetchKeySet(cluster, async () => Promise.reject(new Error('asked')))
    expect(result.ok && result.value.keys.map(({ kid }) => kid)).toEqual([GKE_KID])
  })

  test('is never asked over http', async () => {
    const cluster = clusterWith({ issuer: GKE, keys: { from: 'uri', uri: 'http://keys.example.com/jwks' } })
    const result = await fetchKeySet(cluster, async () => Promise.reject(new Error('asked')))
    expect(result).toMatchObject({ error: { detail: 'keys.example.com/jwks is not https' } })
  })
})
