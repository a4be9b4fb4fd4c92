// The work of the KeyDirectory object: fetches every cluster's key set, compares the sets, and says which may be used.
// Nothing else fetches key sets, so single-flight, cool-down and back-off are here alone.

import { KEY_SET_LIFE, KEY_SET_OVERDUE, KEY_SET_REFETCH_COOLDOWN } from '../../protocol/limits.ts'
import { type Outcome, type Refusal, refuse } from '../../protocol/refusals.ts'
import type { Clock, EpochMilliseconds } from '../../protocol/time.ts'
import type { Cluster } from '../../trust/modes/kubernetes.ts'
import { log, logFailure } from '../telemetry/log.ts'
import { after, hasNothingToUse, NOTHING_TO_USE, retryAt, thumbprintsOf } from './cluster-record.ts'
import { ClusterRecords } from './cluster-records.ts'
import type { KeySet } from './jwks/parse.ts'
import { holdersOfSharedKeys, type KeyState, namesOf, type Snapshot } from './snapshot.ts'

export interface DirectorySources {
  readonly clusters: readonly Cluster[]
  /** The object's storage, which survives an eviction. */
  readonly storage: SyncKvStorage
  readonly clock: Clock
  readonly fetchKeySet: (cluster: Cluster) => Promise<Outcome<KeySet>>
  /** Writes every cluster's snapshot to KV, by entry name. */
  readonly writeSnapshots: (snapshots: ReadonlyMap<string, Snapshot>) => Promise<void>
}

/** A cluster's snapshot, and when asking again can bring another one. */
export interface DirectoryAnswer {
  readonly snapshot: Snapshot
  /** When an unknown `kid` may cause the next fetch; null: now. */
  readonly refetchAt: EpochMilliseconds | null
  /** When the next fetch may be made; null where there is a set. */
  readonly retryAt: EpochMilliseconds | null
  /** Why the last fetch failed; null where it did not. */
  readonly fault: Refusal | null
}

interface Progress {
  readonly roster: string
  readonly sequence: number
  /** The sequence that is in KV. */
  readonly published: number
  readonly states: Readonly<Record<string, KeyState>>
}

const PROGRESS = 'progress'

/** Reads the object's storage, and drops the records of clusters that the trust file no longer has. */
export async function openDirectory(sources: DirectorySources): Promise<Directory> {
  const { entries, roster } = await namesOf(sources.clusters)
  return new Directory(sources, entries, roster)
}

export class Directory {
  readonly #sources: DirectorySources
  readonly #records: ClusterRecords
  readonly #flights = new Map<string, Promise<void>>()
  #progress: Progress
  #sharing: ReadonlySet<string>
  #publishing: Promise<void> | null = null

  constructor(sources: DirectorySources, entries: ReadonlyMap<string, string>, roster: string) {
    this.#sources = sources
    const { storage } = sources
    this.#records = new ClusterRecords(storage, entries)
    const kept = storage.get<Progress>(PROGRESS)
    this.#progress = { sequence: 0, published: 0, states: {}, ...kept, roster }
    this.#sharing = this.#holders()
    this.#advance(kept?.roster !== roster)
  }

  /**
   * A cluster's set, after the fetches that are due: of every cluster never tried, and of this one where it has no set,
   * missed its refresh, or lacks the `kid`. Null where the trust file has no such cluster.
   */
  async ask(name: string, kid: string): Promise<DirectoryAnswer | null> {
    const known = this.#records.find(name)?.set
    const untried = this.#sources.clusters.filter((cluster) => !this.#records.get(cluster.name).tried)
    // The cluster that is asked for goes first.
    untried.sort((a, b) => Number(b.name === name) - Number(a.name === name))
    await Promise.all(untried.map((cluster) => this.#fetchOnce(cluster)))
    const cluster = this.#sources.clusters.find((known) => known.name === name)
    if (cluster === undefined) return null
    if (this.#isDue(name, kid, known)) await this.#fetchOnce(cluster)
    this.#advance(false)
    void this.publish()
    return this.#answer(name)
  }

  /** Fetches every cluster's set, once an hour. The value is the sequence that is published then. */
  async refresh(): Promise<number> {
    await Promise.all(this.#sources.clusters.map((cluster) => this.#fetchOnce(cluster)))
    this.#advance(true)
    await this.publish()
    return this.#progress.sequence
  }

  /** The answer for every cluster, without a fetch. */
  answers(): ReadonlyMap<string, DirectoryAnswer> {
    this.#advance(false)
    return new Map(this.#records.names.map((name) => [name, this.#answer(name)]))
  }

  /** Brings KV up to date. A failure is logged and repaired by the next call. */
  publish(): Promise<void> {
    this.#publishing ??= this.#writeUntilCurrent()
      .catch((error: unknown) => logFailure('key sets not published', error))
      .finally(() => {
        this.#publishing = null
      })
    return this.#publishing
  }

  async #writeUntilCurrent(): Promise<void> {
    while (this.#progress.published !== this.#progress.sequence) {
      const { sequence } = this.#progress
      const snapshots = this.#records.names.map(
        (name) => [this.#records.get(name).entry, this.#snapshot(name)] as const,
      )
      await this.#sources.writeSnapshots(new Map(snapshots))
      this.#keepProgress({ published: sequence })
    }
  }

  #isDue(name: string, kid: string, known: KeySet | null | undefined): boolean {
    const now = this.#sources.clock()
    const record = this.#records.get(name)
    const { set, fetchedAt, attemptedAt, refetchedAt } = record
    const underWay = this.#flights.has(name)
    if (set === null || fetchedAt === null || now > after(fetchedAt, KEY_SET_LIFE)) {
      return underWay || now >= (retryAt(record) ?? now)
    }
    if (attemptedAt !== null && now > after(attemptedAt, KEY_SET_OVERDUE)) return true
    // A set that was fetched since the call began is as new as a refetch.
    if (set.keys.some((key) => key.kid === kid) || set !== known) return false
    if (underWay) return true
    if (refetchedAt !== null && now < after(refetchedAt, KEY_SET_REFETCH_COOLDOWN)) return false
    this.#records.set(name, { ...record, refetchedAt: now })
    return true
  }

  /** One fetch at a time for each cluster: calls meanwhile wait for it and share its outcome. */
  #fetchOnce(cluster: Cluster): Promise<void> {
    const { name } = cluster
    const flight =
      this.#flights.get(name) ??
      this.#fetch(cluster).finally(() => {
        this.#flights.delete(name)
      })
    this.#flights.set(name, flight)
    return flight
  }

  async #fetch(cluster: Cluster): Promise<void> {
    const { name } = cluster
    const attemptedAt = this.#sources.clock()
    this.#records.set(name, { ...this.#records.get(name), attemptedAt })
    const result = await this.#sources.fetchKeySet(cluster).catch((error: unknown) => {
      // A bug, counted as a failed attempt: until each cluster was tried once, no set is used.
      logFailure('bug', error, { cluster: name })
      return refuse('keys_fetch_failed')
    })
    if (!result.ok) this.#fail(name, result.error, this.#records.get(name).unusable)
    else if (hasNothingToUse(result.value)) this.#fail(name, NOTHING_TO_USE, result.value.thumbprints)
    else this.#load(name, result.value)
  }

  #load(name: string, set: KeySet): void {
    const record = this.#records.get(name)
    const changed = JSON.stringify(record.set) !== JSON.stringify(set)
    const fetchedAt = this.#sources.clock()
    this.#records.set(name, { ...record, tried: true, set, fetchedAt, unusable: [], failures: 0, fault: null })
    for (const thumbprint of set.exposed) log('error', 'private key published', { cluster: name, thumbprint })
    this.#compare()
    this.#advance(changed)
  }

  #fail(name: string, fault: Refusal, unusable: readonly string[]): void {
    const record = this.#records.get(name)
    this.#records.set(name, { ...record, tried: true, unusable, failures: record.failures + 1, fault })
    const { reason, detail } = fault
    log('warn', 'key set not loaded', { cluster: name, reason, detail })
    this.#compare()
    this.#advance(false)
  }

  #compare(): void {
    const before = [...this.#sharing].sort().join(', ')
    this.#sharing = this.#holders()
    const clusters = [...this.#sharing].sort().join(', ')
    if (clusters === before) return
    if (clusters === '') log('info', 'no signing key is shared any more', { clusters: before })
    else log('error', 'signing key shared by clusters', { clusters, reason: 'keys_shared' })
  }

  #holders(): Set<string> {
    return holdersOfSharedKeys(
      new Map(this.#records.names.map((name) => [name, thumbprintsOf(this.#records.get(name))])),
    )
  }

  /** Raises the sequence where there is something to publish. It is at least the time, in case storage is lost. */
  #advance(changed: boolean): void {
    const states = Object.fromEntries(this.#records.names.map((name) => [name, this.#state(name)]))
    if (!changed && JSON.stringify(states) === JSON.stringify(this.#progress.states)) return
    this.#keepProgress({ states, sequence: Math.max(this.#progress.sequence + 1, this.#sources.clock()) })
  }

  #state(name: string): KeyState {
    const { fetchedAt } = this.#records.get(name)
    if (fetchedAt === null) return 'never'
    if (this.#sources.clock() > after(fetchedAt, KEY_SET_LIFE)) return 'stale'
    return this.#sharing.has(name) ? 'shared' : 'usable'
  }

  #snapshot(name: string): Snapshot {
    const { set, fetchedAt } = this.#records.get(name)
    const { roster, sequence } = this.#progress
    const state = this.#state(name)
    const keys = state === 'usable' || state === 'shared' ? (set?.keys ?? []) : []
    return { roster, sequence, state, fetchedAt, keys }
  }

  #answer(name: string): DirectoryAnswer {
    const record = this.#records.get(name)
    const { refetchedAt, fault } = record
    const snapshot = this.#snapshot(name)
    return {
      snapshot,
      refetchAt: refetchedAt === null ? null : after(refetchedAt, KEY_SET_REFETCH_COOLDOWN),
      retryAt: snapshot.state === 'never' || snapshot.state === 'stale' ? retryAt(record) : null,
      fault,
    }
  }

  #keepProgress(changes: Partial<Progress>): void {
    this.#progress = { ...this.#progress, ...changes }
    this.#sources.storage.put(PROGRESS, this.#progress)
  }
}
