// The snapshots of key sets that the KeyDirectory publishes through KV, each sealed with a MAC over its entry name.
// KV is a cache, not a root of trust: only holders of CA_KEY can make the MAC.

import { type Bytes, decodeBase64url, encodeBase64url, equalBytes, sha256Hex, utf8 } from '../../protocol/bytes.ts'
import { isObject, type Json } from '../../protocol/strict-json.ts'
import { type EpochMilliseconds, epochMilliseconds } from '../../protocol/time.ts'
import type { Cluster } from '../../trust/modes/kubernetes.ts'
import type { VerificationKey } from './jwks/parse.ts'

/** `shared`: another cluster's set has one of its keys. `stale`: fetched too long ago. `never`: not fetched yet. */
const KEY_STATES = ['usable', 'shared', 'stale', 'never'] as const
export type KeyState = (typeof KEY_STATES)[number]

export interface Snapshot {
  /** Hash of the clusters whose sets were compared with each other. */
  readonly roster: string
  /** Grows with each publication; one sequence for all clusters. */
  readonly sequence: number
  readonly state: KeyState
  /** When the set was fetched; null where there is none. */
  readonly fetchedAt: EpochMilliseconds | null
  /** Empty unless `usable` or `shared`. */
  readonly keys: readonly VerificationKey[]
}

/** Hash of the issuer and the source of the keys, so that a changed one is another entry. */
const sourceHash = ({ issuer, keys, binding }: Cluster): Promise<string> =>
  sha256Hex(utf8(JSON.stringify([issuer, keys, binding])))

/** The name of a cluster's KV entry, the cluster first. */
export const entryName = async (cluster: Cluster): Promise<string> =>
  `keys/${cluster.name}/${await sourceHash(cluster)}`

/** The entry name of every cluster, and the roster of all. */
export async function namesOf(clusters: readonly Cluster[]) {
  const entries = new Map<string, string>()
  for (const cluster of clusters) entries.set(cluster.name, await entryName(cluster))
  return { entries, roster: await rosterOf(clusters) }
}

/** Identifies the set of clusters, in any order. */
export const rosterOf = async (clusters: readonly Cluster[]): Promise<string> =>
  sha256Hex(utf8(JSON.stringify((await Promise.all(clusters.map(entryName))).sort())))

/** Purpose of the key that is derived from CA_KEY. */
export const SEALING_PURPOSE = 'muster key set snapshot'

/** `<base64url MAC>.<JSON>`. */
export async function seal(key: CryptoKey, name: string, snapshot: Snapshot): Promise<string> {
  const json = JSON.stringify(snapshot)
  return `${encodeBase64url(await mac(key, name, json))}.${json}`
}

/** Null for anything that `seal` did not make with this key and for this name. */
export async function unseal(key: CryptoKey, name: string, text: string): Promise<Snapshot | null> {
  const dot = text.indexOf('.')
  const given = decodeBase64url(text.slice(0, Math.max(0, dot)))
  const json = text.slice(dot + 1)
  if (given === null || !equalBytes(given, await mac(key, name, json))) return null
  return parseSnapshot(JSON.parse(json))
}

async function mac(key: CryptoKey, name: string, json: string): Promise<Bytes> {
  return new Uint8Array(await crypto.subtle.sign('HMAC', key, utf8(`${name}\n${json}`)))
}

/** The MAC proves who wrote the entry, but another version of the Worker may have. */
function parseSnapshot(value: Json): Snapshot | null {
  if (!isObject(value)) return null
  const { roster, sequence, state, fetchedAt, keys } = value
  const known = KEY_STATES.find((name) => name === state)
  if (typeof roster !== 'string' || typeof sequence !== 'number' || known === undefined) return null
  if ((fetchedAt !== null && typeof fetchedAt !== 'number') || !Array.isArray(keys)) return null
  const read = keys.map(parseKey)
  if (read.includes(null)) return null
  return {
    roster,
    sequence,
    state: known,
    fetchedAt: fetchedAt === null ? null : epochMilliseconds(fetchedAt),
    keys: read.filter((key) => key !== null),
  }
}

function parseKey(value: Json): VerificationKey | null {
  if (!isObject(value) || typeof value.kid !== 'string' || !isObject(value.jwk)) return null
  const { kid, alg } = value
  const { kty, crv, n, e, x, y } = value.jwk
  if (alg === 'RS256' && kty === 'RSA' && typeof n === 'string' && typeof e === 'string') {
    return { kid, alg, jwk: { kty, n, e } }
  }
  if (alg === 'ES256' && kty === 'EC' && crv === 'P-256' && typeof x === 'string' && typeof y === 'string') {
    return { kid, alg, jwk: { kty, crv, x, y } }
  }
  return null
}

/**
 * The clusters that share a key with another one. Each of them could forge the other's nodes, so all are listed,
 * whichever had the key first. `thumbprints`: by cluster name.
 */
export function holdersOfSharedKeys(thumbprints: ReadonlyMap<string, readonly string[]>): Set<string> {
  const holders = new Map<string, string[]>()
  for (const [cluster, prints] of thumbprints) {
    for (const print of prints) holders.set(print, [...(holders.get(print) ?? []), cluster])
  }
  return new Set([...holders.values()].filter((names) => names.length > 1).flat())
}
