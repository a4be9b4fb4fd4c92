// The Durable Object `KeyDirectory`, one for the whole deployment; directory.ts does its work on key sets. It also numbers
// the trust bundles, for which one place must know the last number.

import { DurableObject } from 'cloudflare:workers'
import { KEY_SET_LIFE } from '../../protocol/limits.ts'
import { refuse } from '../../protocol/refusals.ts'
import { type Clock, systemClock } from '../../protocol/time.ts'
import type { CompiledTrust } from '../../trust/compiled.ts'
import type { Cluster } from '../../trust/modes/kubernetes.ts'
import { type Directory, type DirectoryAnswer, openDirectory } from './directory.ts'
import { Connections } from './jwks/connections.ts'
import { type FetchFunction, fetchKeySet } from './jwks/fetch.ts'
import { type Snapshot, seal } from './snapshot.ts'

export type DeriveKey = (caKey: string) => Promise<CryptoKey>

export const DIRECTORY_NAME = 'directory'

const BUNDLE = 'bundle'

interface BundleSequence {
  readonly hash: string
  readonly sequence: number
}

/** What the object uses of the environment, beside the VPC bindings that clusters name. */
export interface DirectoryEnv {
  readonly KEYS: KVNamespace
  readonly CA_KEY?: string
}

/** The class for a trust file. `deriveKey` derives the key that KV entries are sealed with from CA_KEY. */
export const keyDirectoryOf = (trust: CompiledTrust, deriveKey: DeriveKey, clock: Clock = systemClock) =>
  class extends DurableObject<DirectoryEnv> {
    readonly #directory: Promise<Directory>

    constructor(state: DurableObjectState, env: DirectoryEnv) {
      super(state, env)
      const connections = new Connections()
      this.#directory = openDirectory({
        clusters: trust.clusters,
        storage: state.storage.kv,
        clock,
        fetchKeySet: async (cluster) => {
          const fetch = fetchFor(cluster, env)
          return fetch === null
            ? refuse('keys_fetch_failed', { detail: `binding ${cluster.binding} is missing in wrangler.toml` })
            : fetchKeySet(cluster, connections.through(fetch))
        },
        writeSnapshots: async (snapshots) => {
          // Without CA_KEY nothing can be sealed, so no reader would accept it.
          if (env.CA_KEY) await writeEntries(env.KEYS, await deriveKey(env.CA_KEY), snapshots)
        },
      })
    }

    async ask(cluster: string, kid: string): Promise<DirectoryAnswer | null> {
      return (await this.#directory).ask(cluster, kid)
    }

    async refresh(): Promise<number> {
      return (await this.#directory).refresh()
    }

    async answers(): Promise<ReadonlyMap<string, DirectoryAnswer>> {
      return (await this.#directory).answers()
    }

    /**
     * The `spiffe_sequence` of the trust bundle with this hash. It grows with each change, whatever changed, and never
     * falls. It is at least the time, so that it grows even if storage is lost.
     */
    async bundleSequence(hash: string): Promise<number> {
      const { kv } = this.ctx.storage
      const kept = kv.get<BundleSequence>(BUNDLE)
      if (kept?.hash === hash) return kept.sequence
      const sequence = Math.max((kept?.sequence ?? 0) + 1, clock())
      kv.put<BundleSequence>(BUNDLE, { hash, sequence })
      return sequence
    }
  }

export type KeyDirectory = InstanceType<ReturnType<typeof keyDirectoryOf>>

/** Fetches through the cluster's VPC service, where it names one: only that reaches private addresses and trusts private CAs. */
function fetchFor({ binding }: Cluster, env: object): FetchFunction | null {
  if (binding === null) return (url, init) => fetch(url, init)
  const service: unknown = Object.entries(env).find(([name]) => name === binding)?.[1]
  return isFetcher(service) ? (url, init) => service.fetch(url, init) : null
}

const isFetcher = (value: unknown): value is Fetcher =>
  typeof value === 'object' && value !== null && 'fetch' in value && typeof value.fetch === 'function'

/** KV forgets an entry by itself, when the set in it may not serve any more. */
async function writeEntries(kv: KVNamespace, key: CryptoKey, snapshots: ReadonlyMap<string, Snapshot>): Promise<void> {
  await Promise.all(
    [...snapshots].map(async ([name, snapshot]) =>
      kv.put(name, await seal(key, name, snapshot), { expirationTtl: KEY_SET_LIFE }),
    ),
  )
}
