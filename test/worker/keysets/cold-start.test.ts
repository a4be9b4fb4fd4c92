// Tests what a cold start of many runners costs: calls to the KeyDirectory object, reads of KV and requests to issuers, with
// the real object and the real KV.
import { env, runInDurableObject } from 'cloudflare:test'
import { afterEach, describe, expect, test, vi } from 'vitest'
import type { Outcome } from '../../../src/protocol/refusals.ts'
import { systemClock } from '../../../src/protocol/time.ts'
import type { Cluster } from '../../../src/trust/modes/kubernetes.ts'
import { deriveHmacKey } from '../../../src/worker/ca/keys.ts'
import { type KeyDirectory, keyDirectoryOf } from '../../../src/worker/keysets/key-directory.ts'
import { type FoundKey, makeKeySets } from '../../../src/worker/keysets/lookup.ts'
import { SEALING_PURPOSE } from '../../../src/worker/keysets/snapshot.ts'
import { type FakeIssuer, makeIssuer } from '../../fakes/issuer.ts'
import { clusterWith, trustWith } from '../../fakes/trust.ts'

const ISOLATES = 5
/** Requests that one isolate has at once. */
const AT_ONCE = 32

const deriveKey = (caKey: string) => deriveHmacKey(caKey, SEALING_PURPOSE)

afterEach(() => {
  vi.restoreAllMocks()
})

/** A deployment with this many clusters, whose isolates are all cold. */
async function deploy(count: number) {
  const names = Array.from({ length: count }, () => `c-${crypto.randomUUID().slice(0, 8)}`)
  const issuers = await Promise.all(names.map((name) => makeIssuer(`https://${name}.example.com`)))
  const clusters = issuers.map(({ issuer }, i) => clusterWith({ name: names[i] ?? '', issuer }))
  const ownerOf = (url: string) => issuers.find(({ issuer }) => url.startsWith(`${issuer}/`))
  vi.spyOn(globalThis, 'fetch').mockImplementation(async (input, init) => {
    const owner = ownerOf(String(input))
    if (owner === undefined) throw new TypeError('nobody is there')
    return owner.fetch(String(input), init as RequestInit)
  })
  const stub = env.KEY_DIRECTORY.getByName(crypto.randomUUID())
  let made: KeyDirectory | null = null
  const object = <T>(work: (directory: KeyDirectory) => Promise<T>): Promise<T> =>
    runInDurableObject(stub, (_, state) => {
      made ??= new (keyDirectoryOf(trustWith({ clusters }), deriveKey))(state, { KEYS: env.KEYS, CA_KEY: 'secret' })
      return work(made)
    })
  const counts = { calls: 0, reads: 0 }
  const isolates = Array.from({ length: ISOLATES }, () =>
    makeKeySets({
      clusters,
      readEntry: (name) => {
        counts.reads++
        return env.KEYS.get(name, { cacheTtl: 30 })
      },
      sealingKey: () => deriveKey('secret'),
      askDirectory: (cluster, kid) => {
        counts.calls++
        return object((directory) => directory.ask(cluster, kid))
      },
      refreshDirectory: () => object((directory) => directory.refresh()),
    }),
  )
  /** Each isolate gets its requests at once, for one cluster after the other. */
  const storm = (kidOf: (cluster: number, request: number) => string) =>
    Promise.all(
      isolates.flatMap(({ find }) =>
        Array.from({ length: AT_ONCE }, (_, request) => {
          const at = request % count
          return find(clusters[at] as Cluster, kidOf(at, request), systemClock())
        }),
      ),
    )
  const fetches = () => issuers.reduce((sum, issuer) => sum + issuer.count(), 0)
  return { issuers, object, storm, counts, fetches }
}

const honest = (issuers: readonly FakeIssuer[]) => (cluster: number) => issuers[cluster]?.keys[0]?.kid ?? ''
const verdicts = (outcomes: readonly Outcome<FoundKey>[]) => [
  ...new Set(outcomes.map((outcome) => (outcome.ok ? 'found' : outcome.error.reason))),
]

describe.each([1, 8])('%i clusters', (clusters) => {
  test('that are in KV cost an isolate one read each, and no call', async () => {
    const { issuers, object, storm, counts, fetches } = await deploy(clusters)
    await object((directory) => directory.refresh())
    expect(verdicts(await storm(honest(issuers)))).toEqual(['found'])
    expect(counts).toEqual({ calls: 0, reads: ISOLATES * clusters })
    expect(fetches()).toBe(2 * clusters)
  })

  test('that nobody has fetched yet cost an isolate one call each, and are fetched once', async () => {
    const { issuers, storm, counts, fetches } = await deploy(clusters)
    expect(verdicts(await storm(honest(issuers)))).toEqual(['found'])
    expect(counts.calls).toBeLessThanOrEqual(ISOLATES * clusters)
    expect(fetches()).toBe(2 * clusters)
  })

  test('get one call of an isolate for any number of forged kids, and one fetch for those of all', async () => {
    const { object, storm, counts, fetches } = await deploy(clusters)
    await object((directory) => directory.refresh())
    const before = fetches()
    for (let again = 0; again < 3; again++) {
      const outcomes = await storm((_, request) => `forged-${again}-${request}`)
      expect(verdicts(outcomes)).toEqual(['key_unknown'])
    }
    expect(counts.calls).toBe(ISOLATES * clusters)
    expect(fetches() - before).toBe(2 * clusters)
  })

  test('whose issuers are away cost an isolate one call each, and every caller is told when to come again', async () => {
    const { issuers, storm, counts, fetches } = await deploy(clusters)
    for (const issuer of issuers) issuer.manner = 503
    const outcomes = await storm(honest(issuers))
    expect(verdicts(outcomes)).toEqual(['keys_never_fetched'])
    expect(outcomes.every((outcome) => !outcome.ok && (outcome.error.retryAfter ?? 0) > 0)).toBe(true)
    await storm(honest(issuers))
    expect(counts.calls).toBe(ISOLATES * clusters)
    expect(fetches()).toBe(clusters)
  })
})

test('a key that is new at the issuer is found for all, among forged ones', async () => {
  const { issuers, object, storm, counts, fetches } = await deploy(1)
  await object((directory) => directory.refresh())
  const before = fetches()
  const { kid } = (await issuers[0]?.rotate()) ?? { kid: '' }
  const outcomes = await storm((_, request) => (request % 2 === 0 ? `forged-${request}` : kid))
  expect(outcomes.map((outcome) => outcome.ok)).toEqual(outcomes.map((_, request) => request % 2 === 1))
  expect(counts.calls).toBe(ISOLATES)
  expect(fetches() - before).toBe(2)
})

test('an issuer that is slow is asked once, and an isolate calls the object once', async () => {
  const { issuers, object, storm, counts, fetches } = await deploy(1)
  const [slow] = issuers
  if (slow === undefined) throw new Error('unreachable')
  slow.manner = 'stall'
  const outcomes = storm(honest(issuers))
  await vi.waitUntil(() => counts.calls === ISOLATES && fetches() === 1)
  // The answers are the object's.
  await object(async () => {
    slow.manner = 'serve'
    slow.release()
  })
  expect(verdicts(await outcomes)).toEqual(['found'])
  expect(counts.calls).toBe(ISOLATES)
  expect(fetches()).toBe(2)
})
