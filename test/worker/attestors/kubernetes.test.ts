// The verifier of ServiceAccount tokens: what it accepts, what it refuses, for which reason, and what it asks for.
import fc from 'fast-check'
import { beforeAll, describe, expect, test } from 'vitest'
import { encodeBase64url } from '../../../src/protocol/bytes.ts'
import type { Reason } from '../../../src/protocol/reasons.ts'
import { ok } from '../../../src/protocol/result.ts'
import { type EpochSeconds, epochMilliseconds, epochSeconds, seconds } from '../../../src/protocol/time.ts'
import type { Cluster } from '../../../src/trust/modes/kubernetes.ts'
import { kubernetes, verifyWorkloadToken } from '../../../src/worker/attestors/kubernetes.ts'
import { parseKeySet } from '../../../src/worker/keysets/jwks/parse.ts'
import { makeKeySets } from '../../../src/worker/keysets/lookup.ts'
import { type FakeIssuer, issuerKeyOf, makeIssuer, makeIssuerKey, type TokenChanges } from '../../fakes/issuer.ts'
import { clusterWith, trustWith } from '../../fakes/trust.ts'
import { attestorContract } from './contract.ts'

const files = import.meta.glob<string>('../../cases/oidc/**/*.json', { query: '?raw', import: 'default', eager: true })
const jsonOf = (name: string) => JSON.parse(files[`../../cases/oidc/${name}`] ?? '')

const now = epochSeconds(1_772_366_400)

/** Key sets at hand, by cluster name; counts how often one was looked for. */
function keysAt(sets: Record<string, unknown>) {
  const asked: string[] = []
  const { find: findKey } = makeKeySets({
    clusters: [],
    readEntry: async () => null,
    sealingKey: async () => null,
    askDirectory: async (cluster, kid) => {
      asked.push(`${cluster} ${kid}`)
      const set = await parseKeySet(sets[cluster] as never)
      if (set === null) return null
      const snapshot = {
        roster: '',
        sequence: 1,
        state: 'usable',
        fetchedAt: epochMilliseconds(now * 1000),
        keys: set.keys,
      } as const
      return { snapshot, refetchAt: null, retryAt: null, fault: null }
    },
    refreshDirectory: async () => 0,
  })
  return { findKey, asked }
}

describe('a token of the world', () => {
  interface Case {
    readonly id: string
    readonly cluster: string
    readonly now: number
    readonly expect: string
    readonly why: string
    readonly token: string
  }
  const known = jsonOf('clusters.json') as Record<string, { issuer: string }>
  const names = ['eks', 'gke', 'aks', 'k3s', 'openshift', 'kops-s3', 'es256']
  const clusters = names.map((name) =>
    clusterWith({ name, issuer: known[name]?.issuer ?? '', audiences: ['https://enroll.example.test'] }),
  )
  const sets = Object.fromEntries(names.map((name) => [name, jsonOf(`${name}/jwks.json`)]))

  const ACCEPTED = ['accept', 'accept-within-skew', 'accept-ignoring', 'spec-inclusive', 'spec-skew', 'spec']
  const REASONS_OF: Record<string, Reason> = {
    'no-node-claim': 'node_claim',
    'no-pod-claim': 'pod_claim',
    'secret-bound': 'pod_claim',
    'node-bound-only': 'pod_claim',
    'legacy-secret-token': 'issuer_unknown',
    'ttl-bound-plus-1': 'token_lifetime',
    'exp-missing': 'token_lifetime',
    'exp-string': 'token_lifetime',
    'exp-millis': 'token_time',
    'iat-far-future-exp-later': 'token_time',
    'iat-after-exp': 'token_time',
    'nbf-future-5m': 'token_time',
    'expired-2m': 'token_time',
    'aud-prefix': 'audience_mismatch',
    'aud-substring-string': 'audience_mismatch',
    'aud-slash': 'audience_mismatch',
    'aud-empty': 'audience_mismatch',
    'aud-missing': 'audience_mismatch',
    'sub-mismatch': 'workload_claims',
    'sub-user': 'workload_claims',
    'sub-four-parts': 'workload_claims',
    'iss-slash': 'issuer_unknown',
    'iss-other-cluster': 'key_unknown',
    'iss-path-traversal': 'issuer_unknown',
    'iss-array': 'issuer_unknown',
    'pod-name-traversal': 'pod_claim',
    'kubernetes-io-string': 'workload_claims',
    'duplicate-claim': 'jws_malformed',
    'payload-bom': 'jws_malformed',
    'payload-array': 'jws_malformed',
    'kid-missing': 'jws_header',
    'kid-empty': 'jws_header',
    'kid-unknown': 'key_unknown',
    'kid-number': 'jws_header',
    'kid-proto': 'key_unknown',
    'kid-8k': 'jws_malformed',
    'crit-unknown': 'jws_header',
    'crit-empty': 'jws_header',
    'b64-false-no-crit': 'jws_header',
    'b64-false-crit': 'jws_malformed',
    'alg-lower': 'jws_algorithm',
    'alg-rs512-label': 'jws_algorithm',
    'alg-none': 'jws_algorithm',
    'alg-None-case': 'jws_algorithm',
    'hs256-public-pem': 'jws_algorithm',
    'hs256-public-n': 'jws_algorithm',
    'hs256-public-jwk': 'jws_algorithm',
    'sig-stripped': 'signature_invalid',
    'four-parts': 'jws_malformed',
    'five-parts-jwe': 'jws_malformed',
    'two-parts': 'jws_malformed',
    'json-serialization': 'jws_malformed',
    'million-dots': 'jws_malformed',
    'trailing-newline': 'jws_malformed',
    'leading-space': 'jws_malformed',
    'bearer-prefix': 'jws_malformed',
    quoted: 'jws_malformed',
    'nul-inside': 'jws_malformed',
    'std-base64-signature': 'jws_malformed',
    'padded-parts': 'jws_malformed',
    'non-canonical-base64': 'jws_malformed',
    'other-cluster-key': 'key_unknown',
    'es256-der-signature': 'signature_invalid',
    'es256-sig-63': 'signature_invalid',
    'es256-sig-zero': 'signature_invalid',
    'es256-alg-rs256-label': 'key_algorithm',
    'same-issuer-other-cluster': 'key_unknown',
  }

  test.each(jsonOf('tokens.json') as Case[])('$id: $why', async (given) => {
    const { findKey } = keysAt(sets)
    const token = given.id === 'million-dots' ? '.'.repeat(1_000_000) : given.token
    const result = await verifyWorkloadToken({ clusters, findKey }, token, epochSeconds(given.now))
    const reason = REASONS_OF[given.id]
    if (reason !== undefined) expect(result).toMatchObject({ ok: false, error: { reason } })
    else expect(result).toMatchObject({ ok: true, value: { cluster: given.cluster, serviceAccount: 'runner' } })
    const said = given.expect.startsWith('accept') || ACCEPTED.includes(given.expect)
    if (given.id !== 'no-node-claim') expect(result.ok).toBe(said)
  })

  test('without a node is accepted where the cluster says that it may be missing, and names none', async () => {
    const { token } = (jsonOf('tokens.json') as Case[]).find(({ id }) => id === 'no-node-claim') as Case
    const lenient = clusters.map((cluster) => ({ ...cluster, nodeOptional: true }))
    const result = await verifyWorkloadToken({ clusters: lenient, findKey: keysAt(sets).findKey }, token, now)
    expect(result).toMatchObject({ ok: true, value: { node: null, pod: 'runner-0' } })
  })
})

describe('a token', () => {
  let issuer: FakeIssuer
  let cluster: Cluster
  beforeAll(async () => {
    issuer = await makeIssuer('https://issuer.example.com', await makeIssuerKey('key-1'))
    cluster = clusterWith({ name: 'prod', issuer: issuer.issuer, maxTokenLifetime: seconds(600) })
  })
  const published = () => ({ keys: issuer.keys.map(({ kid, publicJwk }) => ({ ...publicJwk, kid })) })

  async function verify(changes: TokenChanges = {}, ofCluster: Partial<Cluster> = {}, at: EpochSeconds = now) {
    const { findKey, asked } = keysAt({ prod: published() })
    const token = await issuer.token(now, changes)
    const result = await verifyWorkloadToken({ clusters: [{ ...cluster, ...ofCluster }], findKey }, token, at)
    return { result, asked, token }
  }
  const reasonOf = async (...given: Parameters<typeof verify>) => {
    const { result } = await verify(...given)
    return result.ok ? 'accepted' : result.error.reason
  }

  test('proves cluster, ServiceAccount, pod and node', async () => {
    expect((await verify()).result).toEqual(
      ok({
        mode: 'kubernetes',
        cluster: 'prod',
        namespace: 'runners',
        serviceAccount: 'runner',
        pod: 'runner-x7k2p',
        node: 'node-a.example.internal',
      }),
    )
  })

  test('is of the mode of its cluster, not of the one it was sent under', async () => {
    expect((await verify({}, { mode: 'gke-oidc' })).result).toMatchObject({ value: { mode: 'gke-oidc' } })
  })

  test('of RS256 and of ES256 verifies, each with its own kind of key', async () => {
    const rsa = await issuerKeyOf('rsa', 'RS256', jsonOf('gke/private-jwk.json'))
    const both = { keys: [...published().keys, { ...rsa.publicJwk, kid: 'rsa' }] }
    const check = async (changes: TokenChanges) => {
      const sources = { clusters: [cluster], findKey: keysAt({ prod: both }).findKey }
      const result = await verifyWorkloadToken(sources, await issuer.token(now, changes), now)
      return result.ok ? 'accepted' : result.error.reason
    }
    expect(await check({ key: rsa })).toBe('accepted')
    expect(await check({})).toBe('accepted')
    expect(await check({ key: rsa, header: { kid: 'key-1' } })).toBe('key_algorithm')
    expect(await check({ header: { kid: 'rsa' } })).toBe('key_algorithm')
  })

  test.each([
    ['wrong aud', { aud: ['another'] }, 'audience_mismatch'],
    ['aud that is ours among others', { aud: ['another', 'rootpilot-enroll'] }, 'accepted'],
    ['aud with a number beside ours', { aud: ['rootpilot-enroll', 1] }, 'audience_mismatch'],
    ['aud as an object', { aud: { 0: 'rootpilot-enroll' } }, 'audience_mismatch'],
    ['unknown iss', { iss: 'https://issuer.example.net' }, 'issuer_unknown'],
    ['iss with a slash more', { iss: 'https://issuer.example.com/' }, 'issuer_unknown'],
    ['iss in capitals', { iss: 'HTTPS://issuer.example.com' }, 'issuer_unknown'],
    ['absent iss', { iss: undefined }, 'issuer_unknown'],
    ['expired at the end of the leeway', { exp: now - 60, iat: now - 600 }, 'accepted'],
    ['expired a second past the leeway', { exp: now - 61, iat: now - 600 }, 'token_time'],
    ['future nbf within the leeway', { nbf: now + 60 }, 'accepted'],
    ['future nbf past the leeway', { nbf: now + 61 }, 'token_time'],
    ['absent nbf', { nbf: undefined }, 'accepted'],
    ['nbf as a string', { nbf: String(now) }, 'token_time'],
    ['nbf null', { nbf: null }, 'token_time'],
    ['future iat within the leeway', { iat: now + 60, exp: now + 600 }, 'accepted'],
    ['future iat past the leeway', { iat: now + 61, exp: now + 600 }, 'token_time'],
    ['absent exp', { exp: undefined }, 'token_lifetime'],
    ['absent iat', { iat: undefined }, 'token_lifetime'],
    ['exp as a string', { exp: String(now + 600) }, 'token_lifetime'],
    ['exp null', { exp: null }, 'token_lifetime'],
    ['iat as a string', { iat: String(now) }, 'token_lifetime'],
    ['exp - iat at the bound', { iat: now, exp: now + 600 }, 'accepted'],
    ['exp - iat past the bound', { iat: now, exp: now + 601 }, 'token_lifetime'],
    ['exp before iat', { iat: now + 30, exp: now - 30 }, 'token_lifetime'],
    ['exp equal to iat', { iat: now, exp: now }, 'token_lifetime'],
    ['wrong sub', { sub: 'system:serviceaccount:runners:other' }, 'workload_claims'],
    ['sub of another namespace', { sub: 'system:serviceaccount:other:runner' }, 'workload_claims'],
    ['sub as an array', { sub: ['system:serviceaccount:runners:runner'] }, 'workload_claims'],
    ['absent sub', { sub: undefined }, 'workload_claims'],
    ['absent kubernetes.io', { 'kubernetes.io': undefined }, 'workload_claims'],
    ['kubernetes.io as an array', { 'kubernetes.io': [] }, 'workload_claims'],
  ])('%s', async (_, claims, expected) => {
    expect(await reasonOf({ claims })).toBe(expected)
  })

  test.each([
    ['wrong namespace', { namespace: 'other' }, 'workload_claims'],
    ['wrong ServiceAccount', { serviceaccount: { name: 'other' } }, 'workload_claims'],
    ['ServiceAccount as a string', { serviceaccount: 'runner' }, 'workload_claims'],
    ['namespace as a number', { namespace: 1 }, 'workload_claims'],
    ['missing pod', { pod: undefined }, 'pod_claim'],
    ['empty pod name', { pod: { name: '' } }, 'pod_claim'],
    ['pod name as a number', { pod: { name: 1 } }, 'pod_claim'],
    ['missing node', { node: undefined }, 'node_claim'],
    ['node without a name', { node: { uid: 'x' } }, 'node_claim'],
    ['node null', { node: null }, 'node_claim'],
    ...[
      '',
      'A',
      'a/b',
      'a_b',
      '.',
      'a.',
      '.a',
      'a..b',
      '-a',
      'a-',
      'a.-b',
      'ä',
      'a b',
      '%2f',
      'a\u0000',
      'a'.repeat(254),
    ].map((name) => [`node name ${JSON.stringify(name.slice(0, 8))}`, { node: { name } }, 'node_claim'] as const),
    ['node name of 253 characters', { node: { name: 'a'.repeat(253) } }, 'accepted'],
    ['node name of one digit', { node: { name: '7' } }, 'accepted'],
  ] as [string, Record<string, unknown>, string][])('%s', async (_, workload, expected) => {
    expect(await reasonOf({ workload })).toBe(expected)
  })

  test('whose node may be missing may still not have a wrong one', async () => {
    const nodeOptional = true
    expect(await reasonOf({ workload: { node: undefined } }, { nodeOptional })).toBe('accepted')
    for (const node of [null, {}, { name: 'A' }, 'a']) {
      expect(await reasonOf({ workload: { node } }, { nodeOptional })).toBe('node_claim')
    }
  })

  test('is refused for the first thing that is wrong with it, in the order of the checks', async () => {
    const wrong: [Record<string, unknown>, Reason][] = [
      [{ sub: 'x' }, 'workload_claims'],
      [{ exp: undefined }, 'token_lifetime'],
      [{ nbf: now + 100 }, 'token_time'],
      [{ aud: 'x' }, 'audience_mismatch'],
      [{ iss: 'x' }, 'issuer_unknown'],
    ]
    let claims: Record<string, unknown> = {}
    for (const [change, reason] of wrong) {
      claims = { ...claims, ...change }
      expect(await reasonOf({ claims })).toBe(reason)
    }
  })

  test('of an unknown issuer is refused without a look for any key', async () => {
    const { result, asked } = await verify({ claims: { iss: 'https://attacker.example' } })
    expect(result.ok).toBe(false)
    expect(asked).toEqual([])
  })

  test('of a forged signature is refused, though issuer and kid are right', async () => {
    expect(await reasonOf({ key: await makeIssuerKey('key-1') })).toBe('signature_invalid')
  })

  test('brings no key of its own', async () => {
    const key = await makeIssuerKey('key-1')
    const header = { jwk: key.publicJwk, jku: 'https://attacker.example/keys', x5u: 'https://attacker.example/x5' }
    expect(await reasonOf({ key, header })).toBe('signature_invalid')
  })

  test('tells the operator who it says it is, and not itself', async () => {
    const { result, token } = await verify({ claims: { aud: 'x', sub: 'a\u202eb' }, header: { kid: 'key-1' } })
    expect(result).toMatchObject({ error: { claimed: { iss: issuer.issuer, kid: 'key-1', aud: 'x' } } })
    expect(JSON.stringify(result)).not.toContain(token.split('.')[1])
    expect(JSON.stringify(result)).not.toContain('\u202e')
  })

  test('with a long kid has it cut before anybody reads it', async () => {
    const { result } = await verify({ header: { kid: 'k'.repeat(2000) } })
    expect(result).toMatchObject({ error: { claimed: { kid: 'k'.repeat(256) } } })
  })

  test('is refused whatever stands in its claims, a list of what has no text too', async () => {
    const { result } = await verify({ claims: { aud: ['x', { toString: 1 }, 5, 'y'] } })
    expect(result).toMatchObject({ error: { reason: 'audience_mismatch', claimed: { aud: 'x, y' } } })
    const value = fc.oneof(
      fc.jsonValue(),
      fc.array(fc.dictionary(fc.constantFrom('toString', 'valueOf', 'toJSON', 'length'), fc.jsonValue())),
    )
    const names = fc.constantFrom('iss', 'sub', 'aud', 'iat', 'exp', 'kubernetes.io')
    const claims = fc.dictionary(names, value, { minKeys: 1 })
    await fc.assert(
      fc.asyncProperty(claims, async (changed) => {
        expect((await verify({ claims: changed })).result.ok).toBe(false)
      }),
      { numRuns: 200 },
    )
  })

  test('of at most 8 KiB is read, a longer one not', async () => {
    const padded = (pad: number) => issuer.token(now, { claims: { pad: 'x'.repeat(pad) } })
    let pad = Math.floor(((8192 - (await padded(0)).length) * 3) / 4) - 8
    while ((await padded(pad + 1)).length <= 8192) pad++
    const { findKey } = keysAt({ prod: published() })
    const verdict = async (token: string) => verifyWorkloadToken({ clusters: [cluster], findKey }, token, now)
    expect((await verdict(await padded(pad))).ok).toBe(true)
    expect(await verdict(await padded(pad + 1))).toMatchObject({ error: { reason: 'jws_malformed' } })
  })

  test('taken apart and put together at random is never accepted', async () => {
    const good = (await verify()).token.split('.')
    const part = fc.oneof(
      fc.constantFrom(...good),
      fc.jsonValue().map((value) => encodeBase64url(new TextEncoder().encode(JSON.stringify(value)))),
    )
    const { findKey } = keysAt({ prod: published() })
    await fc.assert(
      fc.asyncProperty(fc.array(part, { minLength: 1, maxLength: 5 }), async (parts) => {
        const result = await verifyWorkloadToken({ clusters: [cluster], findKey }, parts.join('.'), now)
        expect(result.ok).toBe(parts.join('.') === good.join('.'))
      }),
      { numRuns: 300 },
    )
  })
})

test('two issuers may use one kid: each token verifies with the key of its own', async () => {
  const [a, b] = [
    await makeIssuer('https://a.example.com', await makeIssuerKey('same')),
    await makeIssuer('https://b.example.com', await makeIssuerKey('same')),
  ]
  const clusters = [clusterWith({ name: 'a', issuer: a.issuer }), clusterWith({ name: 'b', issuer: b.issuer })]
  const jwks = (issuer: FakeIssuer) => ({ keys: issuer.keys.map(({ kid, publicJwk }) => ({ ...publicJwk, kid })) })
  const sources = { clusters, findKey: keysAt({ a: jwks(a), b: jwks(b) }).findKey }
  expect(await verifyWorkloadToken(sources, await a.token(now), now)).toMatchObject({ value: { cluster: 'a' } })
  expect(await verifyWorkloadToken(sources, await b.token(now), now)).toMatchObject({ value: { cluster: 'b' } })
  const crossed = await a.token(now, { claims: { iss: b.issuer } })
  expect(await verifyWorkloadToken(sources, crossed, now)).toMatchObject({ error: { reason: 'signature_invalid' } })
})

describe.each(['gke-oidc', 'eks-oidc', 'kubernetes'] as const)('a cluster of %s', (mode) => {
  attestorContract(mode, async () => {
    const issuer = await makeIssuer('https://issuer.example.com')
    const cluster = clusterWith({ name: 'prod', mode, issuer: issuer.issuer })
    const { findKey } = keysAt({ prod: { keys: issuer.keys.map(({ kid, publicJwk }) => ({ ...publicJwk, kid })) } })
    return {
      attestor: kubernetes({ clusters: [cluster], findKey }),
      evidence: { token: await issuer.token(now) },
      now,
      trust: trustWith({
        clusters: [cluster],
        kubernetesMappings: [{ tenant: 'acme', cluster: 'prod', namespace: 'runners', serviceAccount: 'runner' }],
      }),
    }
  })
})
