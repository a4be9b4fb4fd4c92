// Keeps the newest identity in RUNNER_IDENTITY_DIR, and tries again where it cannot be written (disk full, read-only by
// now).

import { messageOf } from '../../node/errors.ts'
import type { Log } from '../environment/log.ts'
import type { Identity } from '../identity/identity.ts'
import { type IdentityStore, NOT_PERSISTED } from '../identity/store.ts'

const KEPT_BACK = 'could not persist the renewed identity — going on with the one on disk, and trying again'

export class CopyOnDisk {
  readonly #store: IdentityStore | null
  readonly #log: Log
  /** The identity that a boot would find. */
  #onDisk: Identity | null
  /** The identity that could not be written yet. */
  #unwritten: Identity | null = null
  /** Whether the log already says that nothing can be written. */
  #warned: boolean

  constructor(store: IdentityStore | null, log: Log, onDisk: Identity | null) {
    this.#store = store
    this.#log = log
    this.#onDisk = store === null ? null : onDisk
    this.#warned = store !== null && store.unwritable !== null
  }

  /** Whether a boot would find this identity. */
  has(identity: Identity | null): boolean {
    return identity !== null && this.#onDisk === identity
  }

  /** Writes the identity, now or later. Gives whether it is written. `keepsFormer`: the one on disk serves until then. */
  write(identity: Identity, keepsFormer: boolean): boolean {
    if (this.#store === null) return true
    try {
      this.#store.save(identity)
    } catch (error) {
      this.#unwritten = identity
      if (!this.#warned) this.#log('warn', keepsFormer ? KEPT_BACK : NOT_PERSISTED, { cause: messageOf(error) })
      this.#warned = true
      return false
    }
    this.#written(identity)
    return true
  }

  /** Tries once more what could not be written. Gives whether nothing is left to write. */
  writeAgain(): boolean {
    if (this.#unwritten === null) return true
    try {
      this.#store?.save(this.#unwritten)
    } catch {
      return false
    }
    this.#log('info', 'the identity is persisted now')
    this.#written(this.#unwritten)
    return true
  }

  /**
   * Removes the identity on disk, since its successor is used from now on: if a boot presented it again, it would look
   * like a clone. An identity of another enrollment stays.
   */
  dropFormer(): void {
    if (this.#onDisk === null || this.#onDisk.enrollmentId !== this.#unwritten?.enrollmentId) return
    this.#onDisk = null
    const cause = this.#removal()
    // On a full disk there may be room now.
    if (!this.writeAgain()) this.#log('warn', NOT_PERSISTED, { cause })
  }

  #removal(): string {
    try {
      this.#store?.remove()
      return 'the former identity has a successor, and was removed'
    } catch (error) {
      return `the former identity stays: ${messageOf(error)}`
    }
  }

  #written(identity: Identity): void {
    this.#onDisk = identity
    this.#unwritten = null
    this.#warned = false
    try {
      // The key is no longer needed to get the same certificate again.
      this.#store?.forgetRequest()
    } catch {
      // It stays, and the next enrollment writes over it.
    }
  }
}
