// Keeps the identity of one runner across restarts, and the key of an enrollment under way, in RUNNER_IDENTITY_DIR.
//   instance-id      who the folder belongs to
//   identity.json    certificate, chain, trust bundle and key
//   enrollment.json  key and CSR that a single-use token may already have been spent on

import { randomUUID } from 'node:crypto'
import { chmodSync, constants, existsSync, lstatSync, mkdirSync, renameSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { removeTemporaries, tryWriting, writeAtomically } from '../../node/atomic-file.ts'
import { readRegularFile } from '../../node/bounded-file.ts'
import { codeOf, messageOf } from '../../node/errors.ts'
import { SAME_KEY_RETRY } from '../../protocol/limits.ts'
import { err, ok, type Result } from '../../protocol/result.ts'
import { isObject, type JsonObject, readJson } from '../../protocol/strict-json.ts'
import { type EpochSeconds, rfc3339 } from '../../protocol/time.ts'
import { type Identity, readIdentity } from './identity.ts'
import { keyPem, type RequestKey, readKey } from './keys.ts'

const OWNER = 'instance-id'
const IDENTITY = 'identity.json'
const ENROLLMENT = 'enrollment.json'
const ASIDE = 'identity.json.set-aside'
const FILE_BYTES = 256 * 1024
const VERSION = 1

/** Log messages of the specification, word for word. */
export const NOT_PERSISTED = 'could not persist identity — next boot will re-enroll from scratch'
const FOREIGN = 'persisted identity was written for another identity dir — ignoring'

export interface PersistedIdentity {
  readonly identity: Identity
  /** Whether its file was open to other users than its owner. */
  readonly wasOpen: boolean
}

interface StoredFile {
  readonly fields: JsonObject
  readonly wasOpen: boolean
}

export class IdentityStore {
  readonly #folder: string
  readonly #owner: string
  /** Why the folder cannot be written, known before a token is spent; null where it can. */
  readonly unwritable: unknown

  private constructor(folder: string, owner: string, unwritable: unknown) {
    this.#folder = folder
    this.#owner = owner
    this.unwritable = unwritable
  }

  /** Throws where the folder belongs to nobody yet and cannot be written: then there is nothing to read either. */
  static open(folder: string): IdentityStore {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    let owner = readOwner(folder)
    if (owner === null) {
      owner = randomUUID()
      writeAtomically(join(folder, OWNER), `${owner}\n`)
    }
    return new IdentityStore(folder, owner, obstacleTo(folder))
  }

  /** The identity that this folder's own runner wrote, null where there is none; the error is the log message. */
  load(): Result<PersistedIdentity | null, string> {
    const file = this.#read(IDENTITY)
    if (!file.ok) return file
    if (file.value === null) return ok(null)
    const { fields, wasOpen } = file.value
    const { version, owner, certificate, chain, trustBundle, key, runnerId } = fields
    if (version !== VERSION) return err('persisted identity was written by another version — ignoring')
    if (owner !== this.#owner) return err(FOREIGN)
    const isText = (value: unknown): value is string => typeof value === 'string'
    if (!isText(certificate) || !isText(chain) || !isText(trustBundle) || !isText(key))
      return unusable('a field is missing')
    if (runnerId !== null && !isText(runnerId)) return unusable('a field is missing')
    const privateKey = readKey(key)
    if (privateKey === null) return unusable('its key cannot be read')
    const identity = readIdentity({ certificate, chain, trustBundle, key: privateKey, runnerId })
    return identity.ok ? ok({ identity: identity.value, wasOpen }) : unusable(identity.error)
  }

  /** Throws where it cannot be written; then no older identity is left either, if that can be helped. */
  save({ certificate, chain, trustBundle, key, runnerId }: Identity): void {
    const fields = { certificate, chain, trustBundle, key: keyPem(key), runnerId }
    try {
      this.#write(IDENTITY, fields)
    } catch (error) {
      // A certificate that has been followed by another would look like a clone to the control plane.
      try {
        rmSync(join(this.#folder, IDENTITY), { force: true })
      } catch (removal) {
        throw new Error(`${messageOf(error)}; the former identity stays: ${messageOf(removal)}`)
      }
      throw error
    }
  }

  /** Keeps the file under another name: it was refused or cannot be read, and may be of use to its owner. */
  setAside(): void {
    const aside = join(this.#folder, ASIDE)
    renameSync(join(this.#folder, IDENTITY), aside)
    // One that was never read (too large) may be open to others; a link is not followed.
    if (lstatSync(aside).isFile()) tighten(aside)
  }

  /** The key of an enrollment that began less than ten minutes ago: the control plane still honours a retry with it. */
  loadRequest(now: EpochSeconds): RequestKey | null {
    const file = this.#read(ENROLLMENT)
    if (!file.ok || file.value === null) return null
    const { version, owner, startedAt, key, csr, nonce } = file.value.fields
    if (version !== VERSION || owner !== this.#owner) return null
    if (typeof startedAt !== 'string' || typeof key !== 'string') return null
    if (typeof csr !== 'string' || typeof nonce !== 'string') return null
    const age = now - Date.parse(startedAt) / 1000
    const privateKey = age >= 0 && age < SAME_KEY_RETRY ? readKey(key) : null
    return privateKey === null ? null : { key: privateKey, csr, nonce }
  }

  saveRequest({ key, csr, nonce }: RequestKey, now: EpochSeconds): void {
    this.#write(ENROLLMENT, { startedAt: rfc3339(now), key: keyPem(key), csr, nonce })
  }

  forgetRequest(): void {
    rmSync(join(this.#folder, ENROLLMENT), { force: true })
  }

  #write(name: string, fields: Readonly<Record<string, string | null>>): void {
    const text = JSON.stringify({ version: VERSION, owner: this.#owner, ...fields }, null, 2)
    writeAtomically(join(this.#folder, name), `${text}\n`)
  }

  /** Tightens the mode where others could read the file: a copy, or fsGroup. */
  #read(name: string): Result<StoredFile | null, string> {
    const path = join(this.#folder, name)
    try {
      // Never through a symbolic link.
      const text = readRegularFile(path, FILE_BYTES, constants.O_NOFOLLOW)
      const wasOpen = (statSync(path).mode & 0o077) !== 0
      if (wasOpen) tighten(path)
      const reading = readJson(new TextEncoder().encode(text))
      return reading.ok && isObject(reading.value)
        ? ok({ fields: reading.value, wasOpen })
        : unusable('it is not one JSON object')
    } catch (error) {
      const code = codeOf(error, 'not a file of ours')
      return code === 'ENOENT' && !existsSync(path) ? ok(null) : unusable(`it cannot be read (${code})`)
    }
  }
}

function tighten(path: string): void {
  try {
    chmodSync(path, 0o600)
  } catch {
    // Another owner's file: the next identity will be written as ours.
  }
}

const unusable = (why: string) => err(`persisted identity cannot be used: ${why} — ignoring`)

function obstacleTo(folder: string): unknown {
  try {
    for (const name of [OWNER, IDENTITY, ENROLLMENT]) removeTemporaries(join(folder, name))
    tryWriting(join(folder, IDENTITY))
    return null
  } catch (error) {
    return error
  }
}

function readOwner(folder: string): string | null {
  try {
    const owner = readRegularFile(join(folder, OWNER), 128, constants.O_NOFOLLOW).trim()
    return owner === '' ? null : owner
  } catch {
    return null
  }
}
