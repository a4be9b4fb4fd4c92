// Tests that issuers that stall delay no other, though a Worker may wait for six responses at a time alone.
import { env, runInDurableObject } from 'cloudflare:test'
import { describe, expect, test } from 'vitest'
import { epochMilliseconds } from '../../../src/protocol/time.ts'
import { openDirectory } from '../../../src/worker/keysets/directory.ts'
import { Connections } from '../../../src/worker/keysets/jwks/connections.ts'
import { type FetchFunction, fetchKeySet } from '../../../src/worker/keysets/jwks/fetch.ts'
import { type FakeIssuer, makeIssuer } from '../../fakes/issuer.ts'
import { clusterWith } from '../../fakes/trust.ts'

const NOW = epochMilliseconds(Date.UTC(2026, 10, 29, 12))

/** Milliseconds. */
const ROUND_TRIP = 100

/** Queues fetches as the runtime does at Cloudflare; the runtime of these tests does not. */
function sixAtATime(fetch: FetchFunction) {
  const waiting: (() => void)[] = []
  let open = 0
  let most = 0
  const limited: FetchFunction = async (url, init) => {
    if (open >= 6) await new Promise<void>((go) => waiting.push(go))
    open++
    most = Math.max(most, open)
    try {
      await scheduler.wait(ROUND_TRIP)
      init.signal.throwIfAborted()
      return await fetch(url, init)
    } finally {
      open--
      waiting.shift()?.()
    }
  }
  return { limited, most: () => most, queued: () => waiting.length }
}

async function makeStalled(count: number): Promise<FakeIssuer[]> {
  const issuers = await Promise.all(
    Array.from({ length: count }, (_, i) => makeIssuer(`https://stalled-${i}.example.com`)),
  )
  for (const issuer of issuers) issuer.manner = 'stall'
  return issuers
}

async function makeDirectory(issuers: readonly FakeIssuer[]) {
  const network = sixAtATime((url, init) => {
    const owner = issuers.find(({ issuer }) => url.startsWith(`${issuer}/`))
    return owner === undefined ? Promise.reject(new TypeError('nobody')) : owner.fetch(url, init)
  })
  const connections = new Connections()
  const stub = env.KEY_DIRECTORY.getByName(crypto.randomUUID())
  const storage = { get: () => undefined, put: () => {}, delete: () => false, list: () => [] }
  const directory = await runInDurableObject(stub, () =>
    openDirectory({
      clusters: issuers.map(({ issuer }, i) => clusterWith({ name: `c${i}`, issuer })),
      storage: storage as unknown as SyncKvStorage,
      clock: () => NOW,
      fetchKeySet: (cluster) => fetchKeySet(cluster, connections.through(network.limited)),
      writeSnapshots: async () => {},
    }),
  )
  const within = <T>(work: () => Promise<T>): Promise<T> => runInDurableObject(stub, work)
  return { directory, network, within }
}

describe('twelve issuers that stall', { concurrent: true }, () => {
  test('do not keep the one that is asked for from its set', async () => {
    const healthy = await makeIssuer('https://healthy.example.com')
    const { directory, within } = await makeDirectory([...(await makeStalled(12)), healthy])
    const answer = await within(() => directory.ask('c12', healthy.keys[0]?.kid ?? ''))
    expect(answer?.snapshot.state).toBe('usable')
  })

  test('do not keep another from its set, wherever it stands in the file', async () => {
    const [first, middle, last] = await Promise.all(
      ['first', 'middle', 'last'].map((name) => makeIssuer(`https://${name}.example.com`)),
    )
    if (first === undefined || middle === undefined || last === undefined) throw new Error('unreachable')
    const stalled = await makeStalled(12)
    const issuers = [first, ...stalled.slice(0, 6), middle, ...stalled.slice(6), last]
    const { directory, network, within } = await makeDirectory(issuers)
    await within(() => directory.ask('c1', 'kid'))
    const states = [...(await within(async () => directory.answers()))].map(([, { snapshot }]) => snapshot.state)
    expect(states.map((state) => state === 'usable')).toEqual(issuers.map((issuer) => !stalled.includes(issuer)))
    expect([network.most(), network.queued()]).toEqual([6, 0])
  })
})

test('a fetch that is given up while it waits is never made', async () => {
  const made: string[] = []
  const connections = new Connections()
  const fetch = connections.through((url, { signal }) => {
    made.push(url)
    return new Promise((_, fail) => signal.addEventListener('abort', () => fail(signal.reason), { once: true }))
  })
  const controllers = Array.from({ length: 8 }, () => new AbortController())
  const fetches = controllers.map(({ signal }, i) =>
    fetch(`https://${i}.example.com`, { signal }).catch(() => 'given up'),
  )
  await scheduler.wait(0)
  for (const controller of controllers.toReversed()) controller.abort()
  expect(await Promise.all(fetches)).toEqual(Array(8).fill('given up'))
  expect(made).toHaveLength(6)
})

test('with a connection for each, a slow issuer has all of its time', async () => {
  const slow = await makeIssuer('https://slow.example.com')
  slow.manner = 'stall'
  const { directory, within } = await makeDirectory([slow])
  const answer = await within(async () => {
    const asked = directory.ask('c0', 'kid')
    await scheduler.wait(2000)
    slow.manner = 'serve'
    slow.release()
    return asked
  })
  expect(answer?.snapshot.state).toBe('usable')
})
