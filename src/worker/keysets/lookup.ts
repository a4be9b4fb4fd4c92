// Finds the key that a token names: in isolate memory, else in KV, else at the KeyDirectory object.
// The memory holds values, never promises: no request may wait on another's. One request of an isolate asks for a cluster's
// set at a time.

import type { KeyAlgorithm } from '../../protocol/jwk.ts'
import { KEY_SET_LIFE, KEY_SET_MEMORY, KEY_SET_OVERDUE, KEY_SET_UNUSABLE_MEMORY } from '../../protocol/limits.ts'
import { type Outcome, type Refusal, refuse } from '../../protocol/refusals.ts'
import { ok } from '../../protocol/result.ts'
import {
  type EpochMilliseconds,
  epochMilliseconds,
  type Seconds,
  seconds,
  toMilliseconds,
} from '../../protocol/time.ts'
import type { Cluster } from '../../trust/modes/kubernetes.ts'
import { logFailure } from '../telemetry/log.ts'
import type { DirectoryAnswer } from './directory.ts'
import { importKey } from './jwks/parse.ts'
import { namesOf, type Snapshot, unseal } from './snapshot.ts'
import { type Pause, pause, Turns } from './turns.ts'

export interface KeySetSources {
  readonly clusters: readonly Cluster[]
  /** Reads an entry of KV. */
  readonly readEntry: (name: string) => Promise<string | null>
  /** Null without CA_KEY; then KV is not used. */
  readonly sealingKey: () => Promise<CryptoKey | null>
  readonly askDirectory: (cluster: string, kid: string) => Promise<DirectoryAnswer | null>
  /** Has every set fetched anew; the value is the new sequence. */
  readonly refreshDirectory: () => Promise<number>
}

/** A key to verify with, and the one algorithm that it is for. */
export interface FoundKey {
  readonly alg: KeyAlgorithm
  readonly key: CryptoKey
}

/** The key of that cluster under that `kid`. */
export type FindKey = (cluster: Cluster, kid: string, now: EpochMilliseconds) => Promise<Outcome<FoundKey>>

export interface KeySets {
  readonly find: FindKey
  /** Has every cluster's set fetched anew, and uses nothing older from then on. */
  readonly refresh: () => Promise<void>
}

/** The set of one cluster in isolate memory. */
interface Memory {
  readonly snapshot: Snapshot
  readonly until: EpochMilliseconds
  readonly fault: Refusal | null
  readonly retryAt: EpochMilliseconds | null
  /** Keys imported so far, by `kid`. */
  readonly imported: Map<string, FoundKey>
}

export function makeKeySets(sources: KeySetSources, waiting: Pause = pause): KeySets {
  const memories = new Map<string, Memory>()
  /** By cluster: until when an unknown `kid` causes no call to the object. Outlives the sets. */
  const coolUntil = new Map<string, EpochMilliseconds>()
  /** The value is null where the object gave no answer. */
  const turns = new Turns<Memory | null>(waiting)
  let newest = 0
  let names: Awaited<ReturnType<typeof namesOf>> | null = null

  return { find, refresh: async () => supersede(await sources.refreshDirectory()) }

  async function find(cluster: Cluster, kid: string, now: EpochMilliseconds): Promise<Outcome<FoundKey>> {
    for (;;) {
      const recalled = recall(cluster.name, now)
      if (recalled !== null && isFinal(recalled, cluster, kid, now)) return keyIn(recalled, kid, now)
      const { value: memory, asked } = await turns.take(cluster.name, () => load(cluster, kid, now))
      if (memory === null) return refuse('key_directory_unavailable')
      // Another request's question may have been for another key.
      if (asked || isFinal(memory, cluster, kid, now)) return keyIn(memory, kid, now)
    }
  }

  /** From KV, or else from the object; null where neither has it. */
  async function load(cluster: Cluster, kid: string, now: EpochMilliseconds): Promise<Memory | null> {
    const memory = recall(cluster.name, now) ?? (await fromKv(cluster, now))
    return memory !== null && isFinal(memory, cluster, kid, now) ? memory : fromDirectory(cluster.name, kid, now)
  }

  /** Whether the object has nothing to add for now. */
  function isFinal(memory: Memory, { name }: Cluster, kid: string, now: EpochMilliseconds): boolean {
    return now < (coolUntil.get(name) ?? now) || isSettled(memory, kid)
  }

  function recall(name: string, now: EpochMilliseconds): Memory | null {
    const memory = memories.get(name)
    return memory !== undefined && now < memory.until ? memory : null
  }

  /** Null where KV has no usable set; then the object is asked. KV may be a minute old, so an unusable state there is not final. */
  async function fromKv(cluster: Cluster, now: EpochMilliseconds): Promise<Memory | null> {
    names ??= await namesOf(sources.clusters)
    const entry = names.entries.get(cluster.name)
    const key = await sources.sealingKey()
    if (entry === undefined || key === null) return null
    const text = await sources.readEntry(entry).catch(() => null)
    const snapshot = text === null ? null : await unseal(key, entry, text)
    if (snapshot === null || snapshot.roster !== names.roster || snapshot.sequence < newest) return null
    if (snapshot.state !== 'usable' || isOlder(snapshot, KEY_SET_OVERDUE, now)) return null
    return remember(cluster.name, snapshot, now, null)
  }

  async function fromDirectory(name: string, kid: string, now: EpochMilliseconds): Promise<Memory | null> {
    const answer = await sources.askDirectory(name, kid).catch(logged)
    if (answer === null) return null
    if (answer.refetchAt !== null) coolUntil.set(name, answer.refetchAt)
    return remember(name, answer.snapshot, now, answer)
  }

  function remember(name: string, snapshot: Snapshot, now: EpochMilliseconds, answer: DirectoryAnswer | null): Memory {
    const span = snapshot.state === 'usable' ? KEY_SET_MEMORY : KEY_SET_UNUSABLE_MEMORY
    const retryAt = answer?.retryAt ?? null
    const forgottenAt = now + toMilliseconds(span)
    const memory: Memory = {
      snapshot,
      until: epochMilliseconds(retryAt !== null && retryAt > now ? Math.min(forgottenAt, retryAt) : forgottenAt),
      fault: answer?.fault ?? null,
      retryAt,
      imported: new Map(),
    }
    supersede(snapshot.sequence)
    // An older answer than another's serves only the request that waited for it.
    if (snapshot.sequence === newest) memories.set(name, memory)
    return memory
  }

  /** A newer sequence may have changed every cluster's set, so all are forgotten. */
  function supersede(sequence: number): void {
    if (sequence <= newest) return
    memories.clear()
    newest = sequence
  }
}

/** The key is in the set, or there is no set by the object's own recent answer. */
const isSettled = ({ snapshot }: Memory, kid: string): boolean =>
  snapshot.state === 'never' || snapshot.state === 'stale' || snapshot.keys.some((key) => key.kid === kid)

function logged(error: unknown): null {
  logFailure('key directory unavailable', error)
  return null
}

const isOlder = ({ fetchedAt }: Snapshot, span: Seconds, now: EpochMilliseconds): boolean =>
  fetchedAt === null || now > fetchedAt + toMilliseconds(span)

async function keyIn(memory: Memory, kid: string, now: EpochMilliseconds): Promise<Outcome<FoundKey>> {
  const { snapshot, imported, fault } = memory
  switch (snapshot.state) {
    case 'never': {
      const isPlain = fault === null || fault.reason === 'keys_fetch_failed'
      return refuse(isPlain ? 'keys_never_fetched' : fault.reason, { ...detailOf(fault), ...retryAfter(memory, now) })
    }
    case 'stale':
      return refuse('keys_stale', { ...detailOf(fault), ...retryAfter(memory, now) })
    case 'shared':
      return refuse('keys_shared')
    case 'usable':
      break
  }
  if (isOlder(snapshot, KEY_SET_LIFE, now)) return refuse('keys_stale')
  // The issuer showed the private half of each.
  if (snapshot.keys.length === 0) return refuse('keys_none_usable')
  const found = snapshot.keys.find((key) => key.kid === kid)
  if (found === undefined) return refuse('key_unknown')
  const ready = imported.get(kid) ?? { alg: found.alg, key: await importKey(found) }
  imported.set(kid, ready)
  return ok(ready)
}

const detailOf = (fault: Refusal | null) => (fault?.detail === undefined ? {} : { detail: fault.detail })

/** An earlier retry would fail. */
function retryAfter({ retryAt }: Memory, now: EpochMilliseconds): { retryAfter?: Seconds } {
  if (retryAt === null || retryAt <= now) return {}
  return { retryAfter: seconds(Math.max(1, Math.ceil((retryAt - now) / 1000))) }
}
