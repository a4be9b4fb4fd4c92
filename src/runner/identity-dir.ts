// RUNNER_IDENTITY_DIR: the identity of one runner across restarts, and the key of an enrollment under way.
//   instance-id      who the folder belongs to
//   identity.json    certificate, chain, trust bundle and key
//   enrollment.json  key and CSR that a single-use token may already have been spent on

import { randomUUID } from 'node:crypto'
import { chmodSync, constants, existsSync, mkdirSync, renameSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { SAME_KEY_RETRY } from '../protocol/limits.ts'
import { isObject, type JsonObject, readJson } from '../protocol/strict-json.ts'
import { type EpochSeconds, rfc3339 } from '../protocol/time.ts'
import { removeTemporaries, writeAtomically } from './atomic-file.ts'
import { FOREIGN } from './endings.ts'
import { type Identity, readIdentity } from './identity.ts'
import { keyPem, type RequestKey, readKey } from './keys.ts'
import { readBounded } from './token-source.ts'

const OWNER = 'instance-id'
const IDENTITY = 'identity.json'
const ENROLLMENT = 'enrollment.json'
const ASIDE = 'identity.json.set-aside'
const FILE_BYTES = 256 * 1024
const VERSION = 1

/** Nothing there, an identity, or a file that is not used for `why`. */
export type Persisted = { readonly identity: Identity; readonly wasOpen: boolean } | { readonly ignored: string } | null

export class IdentityDir {
  readonly #folder: string
  readonly #owner: string

  private constructor(folder: string, owner: string) {
    this.#folder = folder
    this.#owner = owner
  }

  /** Throws where nothing can be written in it: that is found out before a token is spent. */
  static open(folder: string): IdentityDir {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    for (const name of [OWNER, IDENTITY, ENROLLMENT]) removeTemporaries(folder, name)
    const owner = readOwner(folder) ?? randomUUID()
    writeAtomically(folder, OWNER, `${owner}\n`)
    return new IdentityDir(folder, owner)
  }

  /** The identity that this folder's own runner wrote. */
  load(): Persisted {
    const reading = this.#read(IDENTITY)
    if (reading === null || 'ignored' in reading) return reading
    const { version, owner, certificate, chain, trustBundle, key, runnerId } = reading.fields
    if (version !== VERSION) return { ignored: 'persisted identity was written by another version — ignoring' }
    if (owner !== this.#owner) return { ignored: FOREIGN }
    const isText = (value: unknown): value is string => typeof value === 'string'
    if (!isText(certificate) || !isText(chain) || !isText(trustBundle) || !isText(key))
      return ignored('a field is missing')
    if (runnerId !== null && !isText(runnerId)) return ignored('a field is missing')
    const privateKey = readKey(key)
    if (privateKey === null) return ignored('its key cannot be read')
    const identity = readIdentity({ certificate, chain, trustBundle, key: privateKey, runnerId })
    return 'fault' in identity ? ignored(identity.fault) : { identity, wasOpen: reading.wasOpen }
  }

  /** Throws where it cannot be written; then no older identity is left either, if that can be helped. */
  save({ certificate, chain, trustBundle, key, runnerId }: Identity): void {
    const fields = { certificate, chain, trustBundle, key: keyPem(key), runnerId }
    try {
      this.#write(IDENTITY, fields)
    } catch (error) {
      // A certificate that has been followed by another would look like a clone to the control plane.
      rmSync(join(this.#folder, IDENTITY), { force: true })
      throw error
    }
  }

  /** Keeps the file under another name: it was refused or cannot be read, and may be of use to its owner. */
  setAside(): void {
    renameSync(join(this.#folder, IDENTITY), join(this.#folder, ASIDE))
  }

  /** The key of an enrollment that began less than ten minutes ago: the control plane still honours a retry with it. */
  loadRequest(now: EpochSeconds): RequestKey | null {
    const reading = this.#read(ENROLLMENT)
    if (reading === null || 'ignored' in reading) return null
    const { version, owner, startedAt, key, csr, nonce } = reading.fields
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
    writeAtomically(this.#folder, name, `${text}\n`)
  }

  /** Its mode is put right where others could read it: it was copied here, or fsGroup opened it. */
  #read(
    name: string,
  ): { readonly fields: JsonObject; readonly wasOpen: boolean } | { readonly ignored: string } | null {
    const path = join(this.#folder, name)
    try {
      // Never through a symbolic link.
      const text = readBounded(path, FILE_BYTES, constants.O_NOFOLLOW)
      const wasOpen = (statSync(path).mode & 0o077) !== 0
      if (wasOpen) tighten(path)
      const reading = readJson(new TextEncoder().encode(text))
      return reading.ok && isObject(reading.value)
        ? { fields: reading.value, wasOpen }
        : ignored('it is not one JSON object')
    } catch (error) {
      const code = error instanceof Error && 'code' in error ? String(error.code) : 'not a file of ours'
      return code === 'ENOENT' && !existsSync(path) ? null : ignored(`it cannot be read (${code})`)
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

const ignored = (why: string) => ({ ignored: `persisted identity cannot be used: ${why} — ignoring` })

function readOwner(folder: string): string | null {
  try {
    const owner = readBounded(join(folder, OWNER), 128, constants.O_NOFOLLOW).trim()
    return owner === '' ? null : owner
  } catch {
    return null
  }
}
