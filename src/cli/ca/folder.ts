// Reads and writes an operator's CA folder: the root, kept offline, and the issuing certificate that signs.

import { closeSync, existsSync, openSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { codeOf } from '../../node/errors.ts'
import { seconds, systemClock, toEpochSeconds } from '../../protocol/time.ts'
import type { Authority } from '../../worker/ca/authority.ts'
import { CommandError } from '../operator/command.ts'
import { makeFolder, readWhole } from '../operator/files.ts'
import { type Certificates, parseCertificates } from './certificates.ts'
import type { CaFolder } from './create.ts'

export const DEFAULT_CA_DIR = '.muster/ca'

/** File of each part. `issuing.pem` has the issuing certificate, then the root: the value of CA_CERT. */
export const CA_FILES = {
  rootKey: 'root.key.pem',
  root: 'root.pem',
  issuingKey: 'issuing.key.pem',
  issuing: 'issuing.pem',
} as const satisfies Record<keyof CaFolder, string>

const SECRET: readonly string[] = [CA_FILES.rootKey, CA_FILES.issuingKey]

/** Writes a new folder; refuses to overwrite any part of an earlier CA. */
export function writeCaFolder(dir: string, ca: CaFolder): void {
  const files = Object.entries(CA_FILES).map(([part, name]) => [name, ca[part as keyof CaFolder]] as const)
  writeNew(
    dir,
    files.map(([name, content]) => [name, content, SECRET.includes(name) ? 0o600 : 0o644]),
  )
}

/** Writes files that are not there yet, all of them or none. */
export function writeNew(
  dir: string,
  files: readonly (readonly [name: string, content: string, mode: number])[],
): void {
  refuseTaken(
    dir,
    files.map(([name]) => name),
  )
  makeFolder(dir)
  const written: string[] = []
  try {
    for (const [name, content, mode] of files) {
      const path = join(dir, name)
      const file = openSync(path, 'wx', mode)
      written.push(path)
      try {
        writeFileSync(file, content, { flush: true })
      } finally {
        closeSync(file)
      }
    }
  } catch (error) {
    for (const path of written) rmSync(path, { force: true })
    throw new CommandError(`cannot write to ${dir}: ${codeOf(error)}`)
  }
}

export function refuseTaken(dir: string, names: readonly string[]): void {
  const taken = names.map((name) => join(dir, name)).find((path) => existsSync(path))
  if (taken !== undefined) throw new CommandError(`${taken} is there already: it is not overwritten`)
}

/** Many times what a key, or a chain of certificates, has. */
const CA_FILE_BYTES = 256 * 1024

/** Refuses a CA folder that is not there. */
export function requireFolder(dir: string): void {
  if (dir !== '' && existsSync(dir)) return
  throw new CommandError(`the CA folder ${dir === '' ? '""' : dir} does not exist; name another with --dir`)
}

/** The text of a file of the folder. */
export function readCaFile(dir: string, name: string): string {
  requireFolder(dir)
  const path = join(dir, name)
  const file = readWhole(path, CA_FILE_BYTES)
  if (!file.ok) throw new CommandError(`${path} ${file.error}; name another CA folder with --dir`)
  return new TextDecoder().decode(file.value)
}

/** The certificates of a file of the folder, in its order. */
export function readCaCertificates(dir: string, name: string): Certificates {
  const certificates = parseCertificates(readCaFile(dir, name))
  if (!certificates.ok) throw new CommandError(`${join(dir, name)}: ${certificates.error}`)
  return certificates.value
}

/** The CA of a folder, checked as the Worker checks its secrets; an ended one is refused, too. */
export async function loadFolder(dir: string): Promise<Authority> {
  const { loadAuthority } = await import('../../worker/ca/authority.ts')
  const { validityOf } = await import('../../worker/ca/profile.ts')
  const caKey = readCaFile(dir, CA_FILES.issuingKey)
  const caCert = readCaFile(dir, CA_FILES.issuing)
  const loaded = await loadAuthority({ caKey, caCert, allowDevelopment: false })
  if (!loaded.ok) throw new CommandError(`${dir}: ${loaded.error.detail}`)
  const validity = validityOf(loaded.value, toEpochSeconds(systemClock()), seconds(0))
  if (!validity.ok) throw new CommandError(`${dir}: ${validity.error.detail}`)
  return loaded.value
}
