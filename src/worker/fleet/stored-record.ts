// The record as the object has it in storage, and its alarm. Each change of either is a row written.

import { addSeconds, type EpochSeconds, epochSeconds, seconds, toEpochMilliseconds } from '../../protocol/time.ts'
import { clearedAfter } from './fleet-row.ts'
import type { EnrollmentRecord } from './record.ts'

const KEY = 'record'

export class StoredRecord {
  readonly #storage: DurableObjectStorage
  /** Read once a life of the object: reading it anew at each step was 6 % of a renewal. */
  #current: EnrollmentRecord | null

  constructor(storage: DurableObjectStorage) {
    this.#storage = storage
    this.#current = storage.kv.get<EnrollmentRecord>(KEY) ?? null
  }

  get current(): EnrollmentRecord | null {
    return this.#current
  }

  /** Throws where it cannot be written; the record is the former one then. */
  put(record: EnrollmentRecord): void {
    this.#storage.kv.put(KEY, record)
    this.#current = record
  }

  /** The alarm, too. */
  async clear(): Promise<void> {
    await this.#storage.deleteAll()
    this.#current = null
  }

  /** Sets the alarm for the first of `ends`, or for when the record can be cleared. */
  async wakeNext(record: EnrollmentRecord, ends: readonly EpochSeconds[]): Promise<void> {
    const cleared = addSeconds(clearedAfter(record), seconds(1))
    await this.#storage.setAlarm(toEpochMilliseconds(epochSeconds(Math.min(cleared, ...ends))))
  }

  /** An earlier alarm stays, and sets the next one when it fires. */
  async wakeBy(time: EpochSeconds): Promise<void> {
    const at = toEpochMilliseconds(time)
    const set = await this.#storage.getAlarm()
    if (set === null || set > at) await this.#storage.setAlarm(at)
  }
}
