// Tests the key directory in a real Durable Object: how often it asks issuers, and which keys it keeps and serves.
import { env, evictDurableObject, runInDurableObject } from 'cloudflare:test'
import { beforeEach, describe, expect, test } from 'vitest'
import { epochMilliseconds, milliseconds } from '../../../src/protocol/time.ts'
import type { Cluster } from '../../../src/trust/modes/kubernetes.ts'
import { type Directory, openDirectory } from '../../../src/worker/keysets/directory.ts'
import { fetchKeySet } from '../../../src/worker/keysets/jwks/fetch.ts'
import type { Snapshot } from '../../../src/worker/keysets/snapshot.ts'
import { type FakeIssuer, fetchFrom, makeIssuer, makeIssuerKey } from '../../fakes/issuer.ts'
import { clusterWith } from '../../fakes/trust.ts'

const MINUTE = 60_000
const HOUR = 60 * MINUTE

let now = 0
let published: Map<string, Snapshot>[]
let kvFails = false
beforeEach(() => {
  now = Date.UTC(2026, 10, 29, 12)
  published = []
  kvFails = false
})

/** An object of its own for each test; `open` makes what a start of it would make, on what it kept. */
function makeObject(...issuers: FakeIssuer[]) {
  const stub = env.KEY_DIRECTORY.getByName(crypto.randomUUID())
  const { fetch, strays } = fetchFrom(...issuers)
  const clusters = issuers.map(({ issuer }, i) => clusterWith({ name: `c${i}`, issuer }))
  const open = (registered: readonly Cluster[] = clusters) =>
    runInDurableObject(stub, (_, state) =>
      openDirectory({
        clusters: registered,
        storage: apart(state.storage.kv),
        clock: () => epochMilliseconds(now),
        fetchKeySet: (cluster) => fetchKeySet(cluster, fetch, milliseconds(200)),
        writeSnapshots: async (snapshots) => {
          if (kvFails) throw new Error('KV is away')
          published.push(new Map(snapshots))
        },
      }),
    )
  const within = <T>(work: () => Promise<T>): Promise<T> => runInDurableObject(stub, work)
  const ask = (directory: Directory, name: string, kid: string) => within(() => directory.ask(name, kid))
  return { stub, clusters, strays, open, within, ask }
}

/** The object's own class works on the same storage, by the trust file of the project: it must not see this. */
const apart = (kv: SyncKvStorage): SyncKvStorage => ({
  get: (key: string) => kv.get(`test/${key}`),
  put: (key, value) => kv.put(`test/${key}`, value),
  delete: (key) => kv.delete(`test/${key}`),
  list: <T>(options?: SyncKvListOptions) =>
    [...kv.list<T>({ prefix: `test/${options?.prefix ?? ''}` })].map(([key, value]): [string, T] => [
      key.slice(5),
      value,
    ]),
})

const kidOf = (issuer: FakeIssuer) => issuer.keys.at(-1)?.kid ?? ''
const one = () => makeIssuer('https://one.example.com')
const two = () => makeIssuer('https://two.example.com')

describe('the first question', () => {
  test('is answered after every registered cluster was fetched', async () => {
    const [a, b] = [await one(), await two()]
    b.manner = 'refuse'
    const { open, ask } = makeObject(a, b)
    const answer = await ask(await open(), 'c0', kidOf(a))
    expect(answer?.snapshot.state).toBe('usable')
    expect([a.count(), b.count()]).toEqual([2, 1])
  })

  test('waits for a cluster that stalls no longer than its time-out, and then goes without', async () => {
    const [a, b] = [await one(), await two()]
    b.manner = 'stall'
    const { open, ask } = makeObject(a, b)
    const answer = await ask(await open(), 'c0', kidOf(a))
    expect(answer?.snapshot.state).toBe('usable')
    expect(b.count()).toBe(1)
  })

  test('of twenty at once makes one fetch', async () => {
    const a = await one()
    const { open, within } = makeObject(a)
    const directory = await open()
    const answers = await within(() => Promise.all(Array.from({ length: 20 }, () => directory.ask('c0', kidOf(a)))))
    expect(answers.every((answer) => answer?.snapshot.state === 'usable')).toBe(true)
    expect([...a.asked.values()]).toEqual([1, 1])
  })

  test('about a cluster that is not registered has no answer', async () => {
    const { open, ask } = makeObject(await one())
    expect(await ask(await open(), 'other', 'kid')).toBeNull()
  })
})

describe('an unknown kid', () => {
  test('has the set fetched once, then not again within 5 minutes', async () => {
    const a = await one()
    const { open, ask } = makeObject(a)
    const directory = await open()
    await ask(directory, 'c0', kidOf(a))
    expect(a.count()).toBe(2)
    const answer = await ask(directory, 'c0', 'forged')
    expect(a.count()).toBe(4)
    expect(answer?.refetchAt).toBe(now + 5 * MINUTE)
    now += 5 * MINUTE - 1
    await ask(directory, 'c0', 'forged again')
    expect(a.count()).toBe(4)
    now += 1
    await ask(directory, 'c0', 'forged again')
    expect(a.count()).toBe(6)
  })

  test('forty times at once makes one refetch', async () => {
    const a = await one()
    const { open, ask, within } = makeObject(a)
    const directory = await open()
    await ask(directory, 'c0', kidOf(a))
    await within(() => Promise.all(Array.from({ length: 40 }, (_, i) => directory.ask('c0', `forged-${i}`))))
    expect([...a.asked.values()]).toEqual([2, 2])
  })

  test('counts its cool-down from the attempt, also where that fails', async () => {
    const a = await one()
    const { open, ask } = makeObject(a)
    const directory = await open()
    await ask(directory, 'c0', kidOf(a))
    a.manner = 503
    await ask(directory, 'c0', 'forged')
    const asked = a.count()
    now += 5 * MINUTE - 1
    await ask(directory, 'c0', 'forged')
    expect(a.count()).toBe(asked)
    now += 1
    await ask(directory, 'c0', 'forged')
    expect(a.count()).toBe(asked + 1)
  })

  test('of a rotated key brings the key', async () => {
    const a = await one()
    const { open, ask } = makeObject(a)
    const directory = await open()
    await ask(directory, 'c0', kidOf(a))
    const { kid } = await a.rotate()
    expect((await ask(directory, 'c0', kid))?.snapshot.keys.map((key) => key.kid)).toContain(kid)
  })

  test('that comes while the refetch is under way waits for it', async () => {
    const a = await one()
    const { open, ask, within } = makeObject(a)
    const directory = await open()
    await ask(directory, 'c0', kidOf(a))
    const { kid } = await a.rotate()
    const answers = await within(() => Promise.all([directory.ask('c0', kid), directory.ask('c0', kid)]))
    expect(answers.map((answer) => answer?.snapshot.keys.length)).toEqual([2, 2])
    expect([...a.asked.values()]).toEqual([2, 2])
  })

  test('has its one refetch whatever first loads and hourly refreshes there were', async () => {
    const a = await one()
    const { open, ask, within } = makeObject(a)
    const directory = await open()
    await ask(directory, 'c0', kidOf(a))
    now += 1
    await within(() => directory.refresh())
    const asked = a.count()
    now += 1
    await ask(directory, 'c0', 'forged')
    expect(a.count()).toBe(asked + 2)
  })

  test('of one cluster leaves the cool-down of another alone', async () => {
    const [a, b] = [await one(), await two()]
    const { open, ask } = makeObject(a, b)
    const directory = await open()
    await ask(directory, 'c0', kidOf(a))
    now += 1
    await ask(directory, 'c0', 'forged')
    const asked = b.count()
    const { kid } = await b.rotate()
    await ask(directory, 'c1', kid)
    expect(b.count()).toBe(asked + 2)
  })
})

describe('an issuer that fails', () => {
  test('leaves the last good keys for 24 hours from their fetch, and no longer', async () => {
    const a = await one()
    const { open, ask, within } = makeObject(a)
    const directory = await open()
    await ask(directory, 'c0', kidOf(a))
    a.manner = 503
    const start = now
    for (let hour = 1; hour <= 24; hour++) {
      now = start + hour * HOUR
      await within(() => directory.refresh())
    }
    expect((await ask(directory, 'c0', kidOf(a)))?.snapshot).toMatchObject({ state: 'usable', fetchedAt: start })
    now += 1
    expect((await ask(directory, 'c0', kidOf(a)))?.snapshot).toMatchObject({ state: 'stale', keys: [] })
    a.manner = 'serve'
    now += 5 * MINUTE
    expect((await ask(directory, 'c0', kidOf(a)))?.snapshot.state).toBe('usable')
  })

  test('from the first is asked again after 10 s, then 20, up to 5 minutes', async () => {
    const a = await one()
    a.manner = 503
    const { open, ask } = makeObject(a)
    const directory = await open()
    const answer = await ask(directory, 'c0', 'kid')
    expect(answer).toMatchObject({ snapshot: { state: 'never' }, retryAt: now + 10_000 })
    expect(answer?.fault).toMatchObject({ reason: 'keys_fetch_failed' })
    expect(a.count()).toBe(1)
    for (const [i, wait] of [10, 20, 40, 80, 160, 300, 300].entries()) {
      now += wait * 1000 - 1
      await ask(directory, 'c0', 'kid')
      expect(a.count()).toBe(i + 1)
      now += 1
      await ask(directory, 'c0', 'kid')
      expect(a.count()).toBe(i + 2)
    }
    a.manner = 'serve'
    now += 300_000
    expect((await ask(directory, 'c0', kidOf(a)))?.snapshot.state).toBe('usable')
  })

  test('at discovery by a foreign jwks_uri says so', async () => {
    const a = await one()
    a.discovery = { jwks_uri: 'https://169.254.169.254/keys' }
    const { open, ask, strays } = makeObject(a)
    expect((await ask(await open(), 'c0', 'kid'))?.fault).toMatchObject({ reason: 'jwks_uri_refused' })
    expect(strays).toEqual([])
  })

  test('keeps nobody else from being loaded', async () => {
    const [a, b] = [await one(), await two()]
    b.manner = 'bloat'
    const { open, ask } = makeObject(a, b)
    const directory = await open()
    expect((await ask(directory, 'c1', 'kid'))?.snapshot.state).toBe('never')
    expect((await ask(directory, 'c0', kidOf(a)))?.snapshot.state).toBe('usable')
  })
})

test('a key removed upstream is gone with the next refresh', async () => {
  const a = await one()
  const old = kidOf(a)
  const { open, ask, within } = makeObject(a)
  const directory = await open()
  await ask(directory, 'c0', old)
  await a.rotate({ keepOld: false })
  await within(() => directory.refresh())
  expect((await ask(directory, 'c0', old))?.snapshot.keys.map(({ kid }) => kid)).toEqual([kidOf(a)])
})

describe('an issuer that publishes no key to use', () => {
  const OKP = '{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo","kid":"k","use":"sig"}'
  const NONE = [
    ['no key', '{"keys":[]}'],
    ['keys of another kind alone', `{"keys":[${OKP}]}`],
    ['things that are no keys', '{"keys":[null,{},1]}'],
  ] as const

  test.each(NONE)('but %s keeps its last good set for 24 h', async (_, jwks) => {
    const a = await one()
    const { open, ask, within } = makeObject(a)
    const directory = await open()
    await ask(directory, 'c0', kidOf(a))
    a.jwks = jwks
    await within(() => directory.refresh())
    now += 24 * HOUR
    const kept = await ask(directory, 'c0', kidOf(a))
    expect(kept).toMatchObject({ snapshot: { state: 'usable' }, fault: { reason: 'keys_none_usable' } })
    expect(kept?.snapshot.keys.map(({ kid }) => kid)).toEqual([kidOf(a)])
    now += 1
    expect((await ask(directory, 'c0', kidOf(a)))?.snapshot.state).toBe('stale')
    a.jwks = null
    now += 5 * MINUTE
    expect((await ask(directory, 'c0', kidOf(a)))?.snapshot.state).toBe('usable')
  })

  test.each(NONE)('but %s from the first has no set, with the reason, and is tried again', async (_, jwks) => {
    const a = await one()
    a.jwks = jwks
    const { open, ask } = makeObject(a)
    const directory = await open()
    expect(await ask(directory, 'c0', kidOf(a))).toMatchObject({
      snapshot: { state: 'never' },
      fault: { reason: 'keys_none_usable' },
      retryAt: now + 10_000,
    })
    a.jwks = null
    now += 10_000
    expect((await ask(directory, 'c0', kidOf(a)))?.snapshot.state).toBe('usable')
  })

  test('but shows its private keys loses them at once', async () => {
    const a = await one()
    const { open, ask, within } = makeObject(a)
    const directory = await open()
    await ask(directory, 'c0', kidOf(a))
    const [key] = a.keys
    a.jwks = JSON.stringify({ keys: [{ ...key?.publicJwk, kid: key?.kid, d: 'x'.repeat(43) }] })
    await within(() => directory.refresh())
    expect((await ask(directory, 'c0', kidOf(a)))?.snapshot).toMatchObject({ state: 'usable', keys: [] })
  })
})

test('a set whose hourly refresh never came is fetched when it is asked for', async () => {
  const a = await one()
  const { open, ask } = makeObject(a)
  const directory = await open()
  await ask(directory, 'c0', kidOf(a))
  now += 70 * MINUTE
  await ask(directory, 'c0', kidOf(a))
  expect(a.count()).toBe(2)
  now += 1
  await ask(directory, 'c0', kidOf(a))
  expect(a.count()).toBe(4)
})

describe('a key that two clusters publish', () => {
  test.each([
    ['the first', 0, 1],
    ['the second', 1, 0],
  ])('stops both, %s loaded first, until one drops it', async (_, first, second) => {
    const issuers = [await one(), await two()] as const
    const [early, late] = [issuers[first] as FakeIssuer, issuers[second] as FakeIssuer]
    late.manner = 'refuse'
    const { open, ask, within } = makeObject(...issuers)
    const directory = await open()
    expect((await ask(directory, `c${first}`, kidOf(early)))?.snapshot.state).toBe('usable')
    late.manner = 'serve'
    late.keys = [{ ...(early.keys[0] as (typeof early.keys)[0]), kid: 'another-name' }]
    now += 10_000
    await ask(directory, `c${second}`, 'another-name')
    const states = async () =>
      Promise.all(
        [0, 1].map(async (i) => (await ask(directory, `c${i}`, kidOf(issuers[i] as FakeIssuer)))?.snapshot.state),
      )
    expect(await states()).toEqual(['shared', 'shared'])
    late.keys = [await makeIssuerKey('its-own')]
    await within(() => directory.refresh())
    expect(await states()).toEqual(['usable', 'usable'])
  })

  test('heals by the refetch that an unknown kid causes', async () => {
    const [a, b] = [await one(), await two()]
    b.keys = a.keys
    const { open, ask } = makeObject(a, b)
    const directory = await open()
    expect((await ask(directory, 'c1', kidOf(b)))?.snapshot.state).toBe('shared')
    now += 1
    const { kid } = await b.rotate({ keepOld: false })
    expect((await ask(directory, 'c1', kid))?.snapshot.state).toBe('usable')
    expect((await ask(directory, 'c0', kidOf(a)))?.snapshot.state).toBe('usable')
  })

  test('counts also where it is not for signatures and its holder has no other, however long ago that was read', async () => {
    const [a, b] = [await one(), await two()]
    const [key] = a.keys
    b.jwks = JSON.stringify({ keys: [{ ...key?.publicJwk, use: 'enc' }] })
    const { open, ask, within } = makeObject(a, b)
    const directory = await open()
    expect((await ask(directory, 'c0', kidOf(a)))?.snapshot.state).toBe('shared')
    b.manner = 503
    for (let hour = 0; hour < 25; hour++) {
      now += HOUR
      await within(() => directory.refresh())
    }
    expect((await ask(directory, 'c1', 'kid'))?.snapshot.state).toBe('never')
    expect((await ask(directory, 'c0', kidOf(a)))?.snapshot.state).toBe('shared')
  })

  test('stops no third cluster', async () => {
    const [a, b, c] = [await one(), await two(), await makeIssuer('https://three.example.com')]
    b.keys = a.keys
    const { open, ask } = makeObject(a, b, c)
    expect((await ask(await open(), 'c2', kidOf(c)))?.snapshot.state).toBe('usable')
  })
})

describe('an eviction', () => {
  test('loses neither the set nor the cool-down', async () => {
    const a = await one()
    const { stub, open, ask } = makeObject(a)
    const directory = await open()
    await ask(directory, 'c0', kidOf(a))
    now += 1
    await ask(directory, 'c0', 'forged')
    expect(a.count()).toBe(4)
    await evictDurableObject(stub)
    a.manner = 'refuse'
    const again = await open()
    expect((await ask(again, 'c0', kidOf(a)))?.snapshot.state).toBe('usable')
    await ask(again, 'c0', 'forged')
    expect(a.count()).toBe(4)
  })

  test('in the middle of the first fetch has it made again', async () => {
    const a = await one()
    a.manner = 'stall'
    const { stub, open, ask, within } = makeObject(a)
    const directory = await open()
    await within(async () => {
      directory.ask('c0', 'kid').catch(() => {})
      while (a.count() === 0) await scheduler.wait(1)
    })
    await evictDurableObject(stub)
    a.manner = 'serve'
    expect((await ask(await open(), 'c0', kidOf(a)))?.snapshot.state).toBe('usable')
  })

  test('in the middle of a refetch does not give another one', async () => {
    const a = await one()
    const { stub, open, ask, within } = makeObject(a)
    const directory = await open()
    await ask(directory, 'c0', kidOf(a))
    now += 1
    a.manner = 'stall'
    await within(async () => {
      directory.ask('c0', 'forged').catch(() => {})
      while (a.count() < 3) await scheduler.wait(1)
    })
    await evictDurableObject(stub)
    a.manner = 'serve'
    const answer = await ask(await open(), 'c0', 'forged')
    expect(answer?.snapshot.state).toBe('usable')
    expect(answer?.refetchAt).toBe(now + 5 * MINUTE)
    expect(a.count()).toBe(3)
  })

  test('loses no back-off', async () => {
    const a = await one()
    a.manner = 503
    const { stub, open, ask } = makeObject(a)
    await ask(await open(), 'c0', 'kid')
    await evictDurableObject(stub)
    const answer = await ask(await open(), 'c0', 'kid')
    expect(answer?.retryAt).toBe(now + 10_000)
    expect(a.count()).toBe(1)
  })
})

describe('another trust file', () => {
  test('drops a cluster that it lacks, and its part in the comparison', async () => {
    const [a, b] = [await one(), await two()]
    b.keys = a.keys
    const { clusters, open, ask } = makeObject(a, b)
    expect((await ask(await open(), 'c0', kidOf(a)))?.snapshot.state).toBe('shared')
    const fewer = await open(clusters.slice(0, 1))
    expect((await ask(fewer, 'c0', kidOf(a)))?.snapshot.state).toBe('usable')
    expect(await ask(fewer, 'c1', kidOf(b))).toBeNull()
  })

  test('carries nothing over to a cluster that changed its issuer', async () => {
    const [a, b] = [await one(), await two()]
    const { clusters, open, ask } = makeObject(a, b)
    await ask(await open(clusters.slice(0, 1)), 'c0', kidOf(a))
    const moved = await open([clusterWith({ name: 'c0', issuer: b.issuer })])
    expect((await ask(moved, 'c0', kidOf(b)))?.snapshot.keys.map(({ kid }) => kid)).toEqual([kidOf(b)])
  })

  test('with a cluster more has that one tried before any other is used', async () => {
    const [a, b] = [await one(), await two()]
    b.keys = a.keys
    const { clusters, open, ask } = makeObject(a, b)
    expect((await ask(await open(clusters.slice(0, 1)), 'c0', kidOf(a)))?.snapshot.state).toBe('usable')
    expect((await ask(await open(), 'c0', kidOf(a)))?.snapshot.state).toBe('shared')
  })
})

describe('what is published', () => {
  const lastOf = (name: string) =>
    [...(published.at(-1) ?? [])].find(([entry]) => entry.startsWith(`keys/${name}/`))?.[1]

  test('grows in sequence, once for each change and each hour', async () => {
    const a = await one()
    const { open, ask, within } = makeObject(a)
    const directory = await open()
    await ask(directory, 'c0', kidOf(a))
    await within(() => directory.publish())
    const [times, first] = [published.length, lastOf('c0')?.sequence ?? 0]
    await ask(directory, 'c0', kidOf(a))
    now += 1
    await ask(directory, 'c0', 'forged')
    await within(() => directory.publish())
    expect(published.length).toBe(times)
    await within(() => directory.refresh())
    expect(published.length).toBe(times + 1)
    expect(lastOf('c0')?.sequence).toBeGreaterThan(first)
  })

  test('says of a shared key that it is shared, under every holder', async () => {
    const [a, b] = [await one(), await two()]
    b.keys = a.keys
    const { open, within } = makeObject(a, b)
    const directory = await open()
    await within(() => directory.refresh())
    expect([lastOf('c0')?.state, lastOf('c1')?.state]).toEqual(['shared', 'shared'])
  })

  test('is published again where KV did not take it', async () => {
    const a = await one()
    const { stub, open, ask, within } = makeObject(a)
    kvFails = true
    const directory = await open()
    await ask(directory, 'c0', kidOf(a))
    await within(() => directory.publish())
    expect(published).toEqual([])
    kvFails = false
    await evictDurableObject(stub)
    const again = await open()
    await ask(again, 'c0', kidOf(a))
    await within(() => again.publish())
    expect(lastOf('c0')?.state).toBe('usable')
  })

  test('is never behind in sequence, even after storage was lost', async () => {
    const a = await one()
    const first = makeObject(a)
    const before = await first.ask(await first.open(), 'c0', kidOf(a))
    now += 1
    const second = makeObject(a)
    const after = await second.ask(await second.open(), 'c0', kidOf(a))
    expect(after?.snapshot.sequence).toBeGreaterThan(before?.snapshot.sequence ?? Number.NaN)
  })
})
