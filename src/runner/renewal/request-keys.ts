// Keeps the key and CSR of the request under way, one for all its attempts. Those of an enrollment are on disk before
// they are sent, so that the next process can go on with a token that is already spent.

import { messageOf } from '../../node/errors.ts'
import type { Log } from '../environment/log.ts'
import { newRequestKey, type RequestKey } from '../identity/keys.ts'
import { type IdentityStore, NOT_PERSISTED } from '../identity/store.ts'
import type { Work } from './lifecycle.ts'

interface Request {
  readonly work: Work
  readonly key: RequestKey
  /** The key was made by a former process. */
  readonly isOld: boolean
}

export class RequestKeys {
  readonly #store: IdentityStore | null
  readonly #log: Log
  #request: Request | null = null
  /** The key on disk is that of a former process, and is used once. */
  #wasRead = false

  constructor(store: IdentityStore | null, log: Log) {
    this.#store = store
    this.#log = log
  }

  /** Whether the key of the request was made by a former process. */
  get isOld(): boolean {
    return this.#request?.isOld ?? false
  }

  async keyFor(work: Work): Promise<RequestKey> {
    if (this.#request?.work === work) return this.#request.key
    const kept = work === 'enroll' ? this.#read() : null
    const key = kept ?? (await newRequestKey())
    if (work === 'enroll' && kept === null) this.#save(key)
    this.#request = { work, key, isOld: kept !== null }
    return key
  }

  /** The next request gets another key. */
  drop(): void {
    this.#request = null
  }

  #read(): RequestKey | null {
    if (this.#wasRead || this.#store === null) return null
    this.#wasRead = true
    const pending = this.#store.loadRequest()
    if (pending.ok) return pending.value
    this.#log('warn', pending.error)
    return null
  }

  #save(key: RequestKey): void {
    try {
      this.#store?.saveRequest(key)
    } catch (error) {
      // Where the folder could not be written at boot, this was logged then.
      if (this.#store?.unwritable === null) this.#log('warn', NOT_PERSISTED, { cause: messageOf(error) })
    }
  }
}
