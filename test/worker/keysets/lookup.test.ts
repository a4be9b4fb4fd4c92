// Tests how the Worker looks up a key: its calls to KV and to the KeyDirectory, and which snapshots it accepts from KV.
import { env } from 'cloudflare:test'
import fc from 'fast-check'
import { beforeEach, describe, expect, test } from 'vitest'
import { type EpochMilliseconds, epochMilliseconds } from '../../../src/protocol/time.ts'
import type { Cluster } from '../../../src/trust/modes/kubernetes.ts'
import { deriveHmacKey } from '../../../src/worker/ca/keys.ts'
import type { DirectoryAnswer } from '../../../src/worker/keysets/directory.ts'
import { makeKeySets } from '../../../src/worker/keysets/lookup.ts'
import {
  entryName,
  rosterOf,
  SEALING_PURPOSE,
  type Snapshot,
  seal,
  unseal,
} from '../../../src/worker/keysets/snapshot.ts'
import { makeIssuerKey } from '../../fakes/issuer.ts'
import { clusterWith } from '../../fakes/trust.ts'

const MINUTE = 60_000
const START = Date.UTC(2026, 10, 29, 12)
const at = (milliseconds: number): EpochMilliseconds => epochMilliseconds(milliseconds)

const a = clusterWith({ name: 'a', issuer: 'https://a.example.com' })
const b = clusterWith({ name: 'b', issuer: 'https://b.example.com' })
const sealingKey = await deriveHmacKey('the secret', SEALING_PURPOSE)
const { publicJwk } = await makeIssuerKey('any')
const keyNamed = (kid: string) => ({
  kid,
  alg: 'ES256' as const,
  jwk: { kty: 'EC' as const, crv: 'P-256' as const, x: publicJwk.x ?? '', y: publicJwk.y ?? '' },
})

async function snapshotOf(changes: Partial<Snapshot> = {}): Promise<Snapshot> {
  const roster = await rosterOf([a, b])
  return { roster, sequence: 1, state: 'usable', fetchedAt: at(now), keys: [keyNamed('k1')], ...changes }
}

let now = START
let kv: Map<string, string>
let reads: string[]
let questions: string[]
/** What the object answers, by cluster; an error where there is none. */
/** The sequence after a refresh. */
let refreshed = 0
let answers: Map<string, Partial<DirectoryAnswer> & { readonly snapshot: Snapshot }>

beforeEach(() => {
  now = START
  kv = new Map()
  reads = []
  questions = []
  answers = new Map()
})

function makeIsolate() {
  const keySets = makeKeySets({
    clusters: [a, b],
    readEntry: async (name) => {
      reads.push(name)
      return kv.get(name) ?? null
    },
    sealingKey: async () => sealingKey,
    askDirectory: async (cluster, kid) => {
      questions.push(`${cluster} ${kid}`)
      const answer = answers.get(cluster)
      if (answer === undefined) throw new Error('the object is away')
      return { refetchAt: null, retryAt: null, fault: null, ...answer }
    },
    refreshDirectory: async () => refreshed,
  })
  const find = (cluster: Cluster, kid = 'k1') => keySets.find(cluster, kid, at(now))
  return Object.assign(find, { refresh: keySets.refresh })
}

const publish = async (cluster: Cluster, snapshot: Snapshot) => {
  const name = await entryName(cluster)
  kv.set(name, await seal(sealingKey, name, snapshot))
}
const usable = { ok: true, value: { alg: 'ES256' } }
const refused = (reason: string) => ({ ok: false, error: { reason } })

describe('a key', () => {
  test('in isolate memory costs no call, for 60 seconds', async () => {
    await publish(a, await snapshotOf())
    const find = makeIsolate()
    expect(await find(a)).toMatchObject(usable)
    now += MINUTE - 1
    for (let i = 0; i < 100; i++) expect(await find(a)).toMatchObject(usable)
    expect([reads.length, questions.length]).toEqual([1, 0])
    now += 1
    expect(await find(a)).toMatchObject(usable)
    expect([reads.length, questions.length]).toEqual([2, 0])
  })

  test('that KV does not have is requested from the object, once', async () => {
    answers.set('a', { snapshot: await snapshotOf() })
    const find = makeIsolate()
    expect(await find(a)).toMatchObject(usable)
    expect(await find(a)).toMatchObject(usable)
    expect([reads.length, questions]).toEqual([1, ['a k1']])
  })

  test('of a set older than 70 minutes is requested from the object', async () => {
    await publish(a, await snapshotOf({ fetchedAt: at(START - 70 * MINUTE) }))
    const find = makeIsolate()
    expect(await find(a)).toMatchObject(usable)
    expect(questions).toEqual([])
    now += MINUTE
    answers.set('a', { snapshot: await snapshotOf({ fetchedAt: at(START - 70 * MINUTE) }) })
    expect(await find(a)).toMatchObject(usable)
    expect(questions).toEqual(['a k1'])
  })

  test('of a set that turns 24 hours old in isolate memory is used no more', async () => {
    answers.set('a', { snapshot: await snapshotOf({ fetchedAt: at(START - 24 * 60 * MINUTE + 1000) }) })
    const find = makeIsolate()
    now += 1000
    expect(await find(a)).toMatchObject(usable)
    now += 1
    expect(await find(a)).toMatchObject(refused('keys_stale'))
  })

  test('that neither KV nor the object can give is an outage of ours', async () => {
    expect(await makeIsolate()(a)).toMatchObject(refused('key_directory_unavailable'))
  })

  test('is imported once', async () => {
    await publish(a, await snapshotOf())
    const find = makeIsolate()
    const [first, second] = [await find(a), await find(a)]
    expect(first.ok && second.ok && first.value.key === second.value.key).toBe(true)
  })
})

describe('an unknown kid', () => {
  test('is requested from the object once; then the isolate knows the cool-down', async () => {
    await publish(a, await snapshotOf())
    answers.set('a', { snapshot: await snapshotOf(), refetchAt: at(START + 5 * MINUTE) })
    const find = makeIsolate()
    for (let i = 0; i < 40; i++) expect(await find(a, `forged-${i}`)).toMatchObject(refused('key_unknown'))
    expect(questions).toEqual(['a forged-0'])
    expect(await find(a)).toMatchObject(usable)
    now += 5 * MINUTE - 1
    expect(await find(a, 'forged')).toMatchObject(refused('key_unknown'))
    expect(questions).toHaveLength(1)
    now += 1
    expect(await find(a, 'forged')).toMatchObject(refused('key_unknown'))
    expect(questions).toHaveLength(2)
  })

  test('of another cluster has nothing to do with that cool-down', async () => {
    answers.set('a', { snapshot: await snapshotOf(), refetchAt: at(START + 5 * MINUTE) })
    answers.set('b', { snapshot: await snapshotOf() })
    const find = makeIsolate()
    await find(a, 'forged')
    await find(b, 'forged')
    expect(questions).toEqual(['a forged', 'b forged'])
  })

  test('that the object has learnt meanwhile is found', async () => {
    await publish(a, await snapshotOf())
    answers.set('a', { snapshot: await snapshotOf({ sequence: 2, keys: [keyNamed('k2')] }) })
    const find = makeIsolate()
    expect(await find(a)).toMatchObject(usable)
    expect(await find(a, 'k2')).toMatchObject(usable)
    expect(await find(a, 'k1')).toMatchObject(refused('key_unknown'))
  })

  test.each(['__proto__', 'constructor', 'toString', ''])('%j is no property of anything', async (kid) => {
    answers.set('a', { snapshot: await snapshotOf() })
    expect(await makeIsolate()(a, kid)).toMatchObject(refused('key_unknown'))
  })

  test('under which another cluster has a key finds nothing', async () => {
    answers.set('a', { snapshot: await snapshotOf({ keys: [keyNamed('of-a')] }) })
    answers.set('b', { snapshot: await snapshotOf({ keys: [keyNamed('of-b')] }) })
    const find = makeIsolate()
    expect(await find(a, 'of-a')).toMatchObject(usable)
    expect(await find(b, 'of-a')).toMatchObject(refused('key_unknown'))
  })
})

describe('a cluster that cannot be used', () => {
  test.each([
    ['never', 'keys_never_fetched'],
    ['stale', 'keys_stale'],
    ['shared', 'keys_shared'],
  ] as const)('because its keys are %s says so for 10 seconds without another question', async (state, reason) => {
    const keys = state === 'shared' ? [keyNamed('k1')] : []
    answers.set('a', { snapshot: await snapshotOf({ state, keys }) })
    const find = makeIsolate()
    expect(await find(a)).toMatchObject(refused(reason))
    now += 9_999
    expect(await find(a)).toMatchObject(refused(reason))
    expect(questions).toHaveLength(1)
    now += 1
    answers.set('a', { snapshot: await snapshotOf({ sequence: 2 }) })
    expect(await find(a)).toMatchObject(usable)
  })

  test('according to KV is requested from the object, which may know better', async () => {
    await publish(a, await snapshotOf({ state: 'shared' }))
    answers.set('a', { snapshot: await snapshotOf({ sequence: 2 }) })
    expect(await makeIsolate()(a)).toMatchObject(usable)
  })

  test('by a shared key has an unknown kid asked all the same, once for each cool-down', async () => {
    answers.set('a', { snapshot: await snapshotOf({ state: 'shared' }), refetchAt: at(START + 5 * MINUTE) })
    const find = makeIsolate()
    expect(await find(a)).toMatchObject(refused('keys_shared'))
    expect(await find(a, 'forged')).toMatchObject(refused('keys_shared'))
    expect(questions).toHaveLength(1)
  })

  test('answers with Retry-After, and is asked again then', async () => {
    const fault = { reason: 'keys_fetch_failed', detail: 'a.example.com answered 503' } as const
    const snapshot = await snapshotOf({ state: 'never', fetchedAt: null, keys: [] })
    answers.set('a', { snapshot, retryAt: at(START + 2500), fault })
    const find = makeIsolate()
    expect(await find(a)).toMatchObject({
      error: { reason: 'keys_never_fetched', retryAfter: 3, detail: 'a.example.com answered 503' },
    })
    now += 2500
    await find(a)
    expect(questions).toHaveLength(2)
  })

  test('in which no key can be used is reported as that, not as a failed proof', async () => {
    answers.set('a', { snapshot: await snapshotOf({ keys: [] }), refetchAt: at(START + 5 * MINUTE) })
    expect(await makeIsolate()(a)).toMatchObject(refused('keys_none_usable'))
  })

  test('that the issuer never filled is reported as that', async () => {
    const fault = { reason: 'keys_none_usable', detail: 'none' } as const
    answers.set('a', { snapshot: await snapshotOf({ state: 'never', fetchedAt: null, keys: [] }), fault })
    expect(await makeIsolate()(a)).toMatchObject(refused('keys_none_usable'))
  })

  test('for a discovery document with a foreign jwks_uri names the remedy', async () => {
    const fault = { reason: 'jwks_uri_refused', detail: 'set jwksURI' } as const
    answers.set('a', { snapshot: await snapshotOf({ state: 'never', fetchedAt: null, keys: [] }), fault })
    expect(await makeIsolate()(a)).toMatchObject(refused('jwks_uri_refused'))
  })
})

describe('a newer snapshot', () => {
  test('of one cluster drops what is remembered of all', async () => {
    answers.set('a', { snapshot: await snapshotOf({ state: 'shared' }) })
    answers.set('b', { snapshot: await snapshotOf({ state: 'shared' }) })
    const find = makeIsolate()
    await find(a)
    await find(b)
    answers.set('a', { snapshot: await snapshotOf({ sequence: 2 }) })
    answers.set('b', { snapshot: await snapshotOf({ sequence: 2, keys: [keyNamed('k2')] }) })
    expect(await find(b, 'k2')).toMatchObject(usable)
    expect(await find(a)).toMatchObject(usable)
  })

  test('from a refresh replaces older ones at once, and no lookup waits for it', async () => {
    answers.set('a', { snapshot: await snapshotOf() })
    const find = makeIsolate()
    expect(await find(a)).toMatchObject(usable)
    await publish(a, await snapshotOf())
    refreshed = 2
    answers.set('a', { snapshot: await snapshotOf({ sequence: 2, keys: [keyNamed('k2')] }) })
    await find.refresh()
    expect(await find(a)).toMatchObject(refused('key_unknown'))
  })

  test('is never replaced by an older one from KV', async () => {
    answers.set('a', { snapshot: await snapshotOf({ sequence: 5, keys: [keyNamed('k2')] }) })
    const find = makeIsolate()
    expect(await find(a, 'k2')).toMatchObject(usable)
    await publish(a, await snapshotOf({ sequence: 4 }))
    now += MINUTE
    expect(await find(a, 'k1')).toMatchObject(refused('key_unknown'))
  })
})

describe('an entry of KV', () => {
  const spoiled: [string, () => Promise<void>][] = [
    [
      'under another secret',
      async () => {
        const name = await entryName(a)
        kv.set(name, await seal(await deriveHmacKey('another', SEALING_PURPOSE), name, await snapshotOf()))
      },
    ],
    [
      'of another cluster',
      async () => {
        kv.set(await entryName(a), await seal(sealingKey, await entryName(b), await snapshotOf()))
      },
    ],
    [
      'of the same cluster with another issuer',
      async () => {
        const before = await entryName({ ...a, issuer: 'https://before.example.com' })
        kv.set(await entryName(a), await seal(sealingKey, before, await snapshotOf()))
      },
    ],
    ['of another set of clusters', async () => publish(a, await snapshotOf({ roster: await rosterOf([a]) }))],
    [
      'with one bit changed',
      async () => {
        await publish(a, await snapshotOf())
        const name = await entryName(a)
        kv.set(name, (kv.get(name) ?? '').replace('"usable"', '"usablE"'))
      },
    ],
    [
      'without a MAC',
      async () => {
        kv.set(await entryName(a), JSON.stringify(await snapshotOf()))
      },
    ],
    [
      'that is empty',
      async () => {
        kv.set(await entryName(a), '')
      },
    ],
  ]

  test.each(spoiled)('%s is not believed', async (_, spoil) => {
    await spoil()
    answers.set('a', { snapshot: await snapshotOf({ sequence: 9 }) })
    expect(await makeIsolate()(a)).toMatchObject(usable)
    expect(questions).toEqual(['a k1'])
  })

  test('of random text is nothing, and throws nothing', async () => {
    await fc.assert(
      fc.asyncProperty(fc.string({ unit: 'binary' }), async (text) => {
        expect(await unseal(sealingKey, 'name', text)).toBeNull()
      }),
    )
  })

  test('comes back as it was sealed', async () => {
    const jwk = { kty: 'RSA' as const, n: 'AQAB', e: 'AQAB' }
    const snapshot = await snapshotOf({ keys: [keyNamed('k1'), { kid: 'k2', alg: 'RS256', jwk }] })
    expect(await unseal(sealingKey, 'name', await seal(sealingKey, 'name', snapshot))).toEqual(snapshot)
  })

  test.each([{ keys: [null] }, { keys: 1 }, { state: 'fine' }, { sequence: '1' }, { roster: 1 }, { fetchedAt: 'now' }])(
    'of another version of ours is ignored: %j',
    async (changes) => {
      const odd = { ...(await snapshotOf()), ...changes } as unknown as Snapshot
      expect(await unseal(sealingKey, 'name', await seal(sealingKey, 'name', odd))).toBeNull()
    },
  )

  test('has a name that KV takes, with its cluster first', async () => {
    const name = await entryName(a)
    expect(name.startsWith('keys/a/')).toBe(true)
    await env.KEYS.put(name, 'x')
    expect(await env.KEYS.get(name)).toBe('x')
  })
})
