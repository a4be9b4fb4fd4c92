// Keeps the identity of one runner across restarts, and the key of an enrollment under way, in RUNNER_IDENTITY_DIR.
//   instance-id      who the folder belongs to
//   identity.json    certificate, chain, trust bundle and key
//   enrollment.json  key and CSR that a single-use token may already have been spent on

import { randomUUID } from 'node:crypto'
import { constants, existsSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { removeTemporaries, tryWriting, writeAtomically } from '../../node/atomic-file.ts'
import { readRegularFile } from '../../node/bounded-file.ts'
import { codeOf } from '../../node/errors.ts'
import { err, ok, type Result } from '../../protocol/result.ts'
import { isObject, type JsonObject, readJson } from '../../protocol/strict-json.ts'
import { type Identity, readIdentity } from './identity.ts'
import { keyPem, type RequestKey, readKey } from './keys.ts'
import { openFolder, readPrivateFile, tightenFile, UnsafeFileError } from './private-file.ts'

const OWNER = 'instance-id'
const IDENTITY = 'identity.json'
const ENROLLMENT = 'enrollment.json'
const ASIDE = 'identity.json.set-aside'
const FILE_BYTES = 256 * 1024
/** An identity has 3 KB: a leaf, its chain, the key and a root; in the midst of a rotation a few roots more. */
const TRIAL_BYTES = 8 * 1024
const VERSION = 1

/** Log messages of the specification, word for word. */
export const NOT_PERSISTED = 'could not persist identity — next boot will re-enroll from scratch'
const FOREIGN = 'persisted identity was written for another identity dir — ignoring'

export interface PersistedIdentity {
  readonly identity: Identity
  /** Whether other users than its owner could read its file. */
  readonly wasOpen: boolean
}

interface StoredFile {
  readonly fields: JsonObject
  readonly wasOpen: boolean
}

export class IdentityStore {
  readonly #folder: string
  readonly #owner: string
  /** Why the file that names the owner is not read, though there is one; null where it is. */
  readonly #ownerFault: string | null
  /** Whether the folder says who its owner is. */
  #owned: boolean
  /** Why the folder cannot be written, known before a token is spent; null where it can. */
  readonly unwritable: unknown
  /** Why others can replace the files in the folder, or null. */
  readonly openToOthers: string | null

  constructor(folder: string) {
    this.#folder = folder
    const owner = readOwner(folder)
    const known = owner.ok ? owner.value : null
    this.#owner = known ?? randomUUID()
    this.#ownerFault = owner.ok ? null : owner.error
    this.#owned = known !== null
    let openToOthers: string | null = null
    let unwritable: unknown = null
    try {
      openToOthers = openFolder(folder)
      for (const name of [OWNER, IDENTITY, ENROLLMENT]) removeTemporaries(join(folder, name))
      // On a share without modes or owners, no later boot would accept the file.
      tryWriting(join(folder, IDENTITY), TRIAL_BYTES, (trial) => void readPrivateFile(trial, FILE_BYTES))
    } catch (error) {
      const unsafe = error instanceof UnsafeFileError
      unwritable = unsafe
        ? new Error(`no boot would take a file that is written to ${folder}: ${error.message}`)
        : error
    }
    this.openToOthers = openToOthers
    this.unwritable = unwritable
  }

  /** The identity that the runner of this folder wrote; null where there is none. The error is the log message. */
  load(): Result<PersistedIdentity | null, string> {
    const file = this.#read(IDENTITY)
    if (!file.ok) return file
    if (file.value === null) return ok(null)
    const { fields, wasOpen } = file.value
    const { version, owner, certificate, chain, trustBundle, key, runnerId } = fields
    if (version !== VERSION) return err('persisted identity was written by another version — ignoring')
    if (this.#ownerFault !== null) return unusable(IDENTITY, this.#ownerFault)
    if (owner !== this.#owner) return err(FOREIGN)
    const isText = (value: unknown): value is string => typeof value === 'string'
    if (!isText(certificate) || !isText(chain) || !isText(trustBundle) || !isText(key))
      return unusable(IDENTITY, 'a field is missing')
    if (runnerId !== null && !isText(runnerId)) return unusable(IDENTITY, 'a field is missing')
    const privateKey = readKey(key)
    if (privateKey === null) return unusable(IDENTITY, 'its key cannot be read')
    const identity = readIdentity({ certificate, chain, trustBundle, key: privateKey, runnerId })
    return identity.ok ? ok({ identity: identity.value, wasOpen }) : unusable(IDENTITY, identity.error)
  }

  /** Throws where it cannot be written; then the file is as it was. */
  save({ certificate, chain, trustBundle, key, runnerId }: Identity): void {
    this.#write(IDENTITY, { certificate, chain, trustBundle, key: keyPem(key), runnerId })
  }

  /** Removes the identity, so that no later boot uses it. Throws where it cannot be removed. */
  remove(): void {
    rmSync(join(this.#folder, IDENTITY), { force: true })
  }

  /** Keeps the file under another name: it was refused or cannot be read, and may be of use to its owner. */
  setAside(): void {
    const aside = join(this.#folder, ASIDE)
    renameSync(join(this.#folder, IDENTITY), aside)
    // A file that was never read, because it is too large, may be open to others.
    tightenFile(aside)
  }

  /**
   * The key of an enrollment that was not answered, however old: no clock can be trusted to tell its age, and a key that
   * the control plane no longer knows is as good as a fresh one. The error is the log message.
   */
  loadRequest(): Result<RequestKey | null, string> {
    const file = this.#read(ENROLLMENT)
    if (!file.ok) return err(`${file.error}; a token that was spent with it is lost`)
    if (file.value === null) return ok(null)
    const { version, owner, key, csr, nonce } = file.value.fields
    if (version !== VERSION || owner !== this.#owner) return ok(null)
    if (typeof key !== 'string' || typeof csr !== 'string' || typeof nonce !== 'string') return ok(null)
    const privateKey = readKey(key)
    return ok(privateKey === null ? null : { key: privateKey, csr, nonce })
  }

  saveRequest({ key, csr, nonce }: RequestKey): void {
    this.#write(ENROLLMENT, { key: keyPem(key), csr, nonce })
  }

  forgetRequest(): void {
    rmSync(join(this.#folder, ENROLLMENT), { force: true })
  }

  #write(name: string, fields: Readonly<Record<string, string | null>>): void {
    if (!this.#owned) {
      openFolder(this.#folder)
      writeAtomically(join(this.#folder, OWNER), `${this.#owner}\n`)
      this.#owned = true
    }
    const text = JSON.stringify({ version: VERSION, owner: this.#owner, ...fields }, null, 2)
    writeAtomically(join(this.#folder, name), `${text}\n`)
  }

  #read(name: string): Result<StoredFile | null, string> {
    const path = join(this.#folder, name)
    try {
      const { text, wasOpen } = readPrivateFile(path, FILE_BYTES)
      const reading = readJson(new TextEncoder().encode(text))
      return reading.ok && isObject(reading.value)
        ? ok({ fields: reading.value, wasOpen })
        : unusable(name, 'it is not one JSON object')
    } catch (error) {
      if (error instanceof UnsafeFileError) return unusable(name, error.message)
      const code = codeOf(error, 'not a file of ours')
      const isAbsent = (code === 'ENOENT' || code === 'ENOTDIR') && !existsSync(path)
      return isAbsent ? ok(null) : unusable(name, `it cannot be read (${code})`)
    }
  }
}

const unusable = (name: string, why: string) =>
  err(`${name === IDENTITY ? 'persisted identity' : name} cannot be used: ${why} — ignoring`)

/** A folder without the file, or with an empty one, belongs to nobody yet: null. */
function readOwner(folder: string): Result<string | null, string> {
  try {
    return ok(readRegularFile(join(folder, OWNER), 128, constants.O_NOFOLLOW).trim() || null)
  } catch (error) {
    const code = codeOf(error, 'not a file of ours')
    return code === 'ENOENT' || code === 'ENOTDIR' ? ok(null) : err(`${OWNER} beside it cannot be read (${code})`)
  }
}
