// Tests the Durable Object class KeyDirectory: where it fetches from, and what it writes to KV.
import { env, runInDurableObject } from 'cloudflare:test'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { epochMilliseconds } from '../../../src/protocol/time.ts'
import type { Cluster } from '../../../src/trust/modes/kubernetes.ts'
import { deriveHmacKey } from '../../../src/worker/ca/keys.ts'
import { type KeyDirectory, keyDirectoryOf } from '../../../src/worker/keysets/key-directory.ts'
import { entryName, SEALING_PURPOSE, unseal } from '../../../src/worker/keysets/snapshot.ts'
import { type FakeIssuer, makeIssuer } from '../../fakes/issuer.ts'
import { clusterWith, trustWith } from '../../fakes/trust.ts'

afterEach(() => {
  vi.restoreAllMocks()
})

const deriveKey = (caKey: string) => deriveHmacKey(caKey, SEALING_PURPOSE)

/** An object of this class, with these clusters and bindings, in the place of a real one. */
const inObject = <T>(clusters: Cluster[], bindings: object, work: (object: KeyDirectory) => Promise<T>): Promise<T> =>
  runInDurableObject(env.KEY_DIRECTORY.getByName(crypto.randomUUID()), (_, state) => {
    const { KEYS } = env
    return work(
      new (keyDirectoryOf(trustWith({ clusters }), deriveKey))(state, { KEYS, CA_KEY: 'secret', ...bindings }),
    )
  })

const kidOf = ({ keys }: FakeIssuer) => keys[0]?.kid ?? ''

describe('a cluster with a binding', () => {
  test('is fetched through it, and through nothing else', async () => {
    const issuer = await makeIssuer('https://10.0.0.5:6443')
    const outside = vi.spyOn(globalThis, 'fetch')
    const cluster = clusterWith({ issuer: issuer.issuer, binding: 'CLUSTER_VPC' })
    const answer = await inObject([cluster], { CLUSTER_VPC: { fetch: issuer.fetch } }, (object) =>
      object.ask('prod', kidOf(issuer)),
    )
    expect(answer?.snapshot).toMatchObject({ state: 'usable', keys: [{ kid: kidOf(issuer) }] })
    expect(outside).not.toHaveBeenCalled()
  })

  test.each([{}, { CLUSTER_VPC: 'text' }, { CLUSTER_VPC: null }])(
    'that is not there has no keys: %j',
    async (bindings) => {
      const outside = vi.spyOn(globalThis, 'fetch')
      const cluster = clusterWith({ binding: 'CLUSTER_VPC' })
      const answer = await inObject([cluster], bindings, (object) => object.ask('prod', 'kid'))
      expect(answer).toMatchObject({
        snapshot: { state: 'never' },
        fault: { detail: 'binding CLUSTER_VPC is missing in wrangler.toml' },
      })
      expect(outside).not.toHaveBeenCalled()
    },
  )
})

test('a cluster without a binding is fetched over the network', async () => {
  const issuer = await makeIssuer('https://a.example.com')
  vi.spyOn(globalThis, 'fetch').mockImplementation((input, init) => issuer.fetch(String(input), init as RequestInit))
  const cluster = clusterWith({ issuer: issuer.issuer })
  const answer = await inObject([cluster], {}, (object) => object.ask('prod', kidOf(issuer)))
  expect(answer?.snapshot.state).toBe('usable')
})

describe('KV', () => {
  const bundled = async () => {
    const issuer = await makeIssuer('https://a.example.com')
    const keys = issuer.keys.map(({ kid, publicJwk }) => ({ kid, ...publicJwk }))
    const jwks = { keys } as never
    return clusterWith({ name: crypto.randomUUID(), issuer: issuer.issuer, keys: { from: 'file', jwks } })
  }

  test('gets every set sealed under the name of its cluster', async () => {
    const clusters = [await bundled(), await bundled()]
    await inObject(clusters, {}, (object) => object.refresh())
    const key = await deriveKey('secret')
    for (const cluster of clusters) {
      const name = await entryName(cluster)
      expect(await unseal(key, name, (await env.KEYS.get(name)) ?? '')).toMatchObject({ state: 'usable' })
    }
  })

  test('gets nothing where there is no CA to seal with', async () => {
    const cluster = await bundled()
    await inObject([cluster], { CA_KEY: undefined }, (object) => object.refresh())
    expect(await env.KEYS.get(await entryName(cluster))).toBeNull()
  })
})

describe('the sequence of the trust bundle', () => {
  const stub = env.KEY_DIRECTORY.getByName(crypto.randomUUID())
  let now = epochMilliseconds(Date.UTC(2026, 10, 29, 12))
  const numberOf = (hash: string) =>
    runInDurableObject(stub, (_, state) =>
      new (keyDirectoryOf(trustWith(), deriveKey, () => now))(state, env as never).bundleSequence(hash),
    )

  test('grows with each change, also back to what was before, and never falls', async () => {
    const numbers = []
    for (const hash of ['root', 'root', 'root and an older one', 'root', 'next']) numbers.push(await numberOf(hash))
    const [first = 0, again, second = 0, back = 0, next = 0] = numbers
    expect(again).toBe(first)
    expect([second > first, back > second, next > back]).toEqual([true, true, true])
    now = epochMilliseconds(now - 3_600_000)
    expect(await numberOf('and a clock that went back')).toBeGreaterThan(next)
  })
})

test('the state for the fleet page is answered without a fetch', async () => {
  const issuer = await makeIssuer('https://a.example.com')
  const outside = vi.spyOn(globalThis, 'fetch')
  const answers = await inObject([clusterWith({ issuer: issuer.issuer })], {}, (object) => object.answers())
  expect([...answers].map(([name, { snapshot }]) => [name, snapshot.state])).toEqual([['prod', 'never']])
  expect(outside).not.toHaveBeenCalled()
})
