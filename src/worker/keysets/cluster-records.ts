// Keeps the record of each cluster in the KeyDirectory's storage, and a copy in memory. Each change goes to both.

import { type ClusterRecord, UNTRIED } from './cluster-record.ts'

const PREFIX = 'cluster/'

export class ClusterRecords {
  readonly #storage: SyncKvStorage
  readonly #records = new Map<string, ClusterRecord>()

  /** `entries`: the KV entry of each cluster of the trust file. Records of other clusters or entries are deleted. */
  constructor(storage: SyncKvStorage, entries: ReadonlyMap<string, string>) {
    this.#storage = storage
    for (const [key, record] of [...storage.list<ClusterRecord>({ prefix: PREFIX })]) {
      const name = key.slice(PREFIX.length)
      // The defaults are for a record of an older version.
      if (entries.get(name) === record.entry) this.#records.set(name, { ...UNTRIED, ...record })
      else storage.delete(key)
    }
    for (const [name, entry] of entries) {
      if (!this.#records.has(name)) this.set(name, { ...UNTRIED, entry })
    }
  }

  get names(): readonly string[] {
    return [...this.#records.keys()]
  }

  find(name: string): ClusterRecord | null {
    return this.#records.get(name) ?? null
  }

  /** Throws for a cluster that the trust file does not have. */
  get(name: string): ClusterRecord {
    const record = this.#records.get(name)
    if (record === undefined) throw new Error(`no record of cluster ${name}`)
    return record
  }

  set(name: string, record: ClusterRecord): void {
    this.#records.set(name, record)
    this.#storage.put(PREFIX + name, record)
  }
}
