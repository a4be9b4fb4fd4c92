// Changes the CA folder through the steps of a rotation. `next` and `previous` in it say where the rotation is. Each
// is created and removed by one rename, and copied files stay in their old place until then. So an interrupted step can
// be repeated.

import { createPrivateKey } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { removeTemporaries, writeAtomically } from '../../node/atomic-file.ts'
import { codeOf } from '../../node/errors.ts'
import { quote } from '../../protocol/characters.ts'
import { CommandError } from '../operator/command.ts'
import type { CaFolder } from './create.ts'
import { CA_FILES, loadFolder, readCaCertificates, readCaFile, writeCaFolder } from './folder.ts'

const NEXT = 'next'
const PREVIOUS = 'previous'
const RETIRED = 'retired-'

export const nextOf = (dir: string): string => join(dir, NEXT)
export const previousOf = (dir: string): string => join(dir, PREVIOUS)
const unfinished = (path: string): string => `${path}.tmp`

/** Where a rotation is. */
export type RotationState = 'none' | 'prepared' | 'activated'

export function rotationState(dir: string): RotationState {
  if (existsSync(nextOf(dir))) return 'prepared'
  return existsSync(previousOf(dir)) ? 'activated' : 'none'
}

/** Whether an activation was begun and not finished. */
export const isActivating = (dir: string): boolean => existsSync(nextOf(dir)) && existsSync(previousOf(dir))

export const wasRetired = (dir: string): boolean =>
  existsSync(dir) && namesIn(dir).some((name) => name.startsWith(RETIRED))

/** Paths of the private keys of CAs that were retired. */
export const retiredKeys = (dir: string): string[] =>
  namesIn(dir)
    .filter((name) => name.startsWith(RETIRED))
    .flatMap((name) => [CA_FILES.issuingKey, CA_FILES.rootKey].map((key) => join(dir, name, key)))
    .filter((path) => existsSync(path))

/** The folder of the CA that the rotation replaces, wherever the rotation is. */
export const oldOf = (dir: string): string => (existsSync(previousOf(dir)) ? previousOf(dir) : dir)

/** Why `next` cannot be activated, or null: it must be whole and of one CA; the root's key may be kept elsewhere. */
export async function faultOfNext(dir: string): Promise<string | null> {
  const next = nextOf(dir)
  try {
    await loadFolder(next)
    const [root] = readCaCertificates(next, CA_FILES.root)
    const top = readCaCertificates(next, CA_FILES.issuing).at(-1)
    return root.fingerprint256 === top?.fingerprint256
      ? null
      : `${next}: ${CA_FILES.root} is not the root of ${CA_FILES.issuing}`
  } catch (error) {
    if (error instanceof CommandError) return error.message
    throw error
  }
}

export function refuseStrays(dir: string): void {
  const next = nextOf(dir)
  const known: readonly string[] = Object.values(CA_FILES)
  const strays = namesIn(next).filter((name) => !known.includes(name))
  if (strays.length > 0) {
    throw new CommandError(
      `${next} holds what is not of a CA, move it away: ${strays.map((name) => quote(name)).join(', ')}`,
    )
  }
}

function namesIn(dir: string): string[] {
  try {
    return readdirSync(dir)
  } catch (error) {
    throw new CommandError(`${dir} cannot be read (${codeOf(error)})`)
  }
}

/** Makes `next`, and replaces what an interrupted step left. */
export function placeNext(dir: string, ca: CaFolder): void {
  const next = nextOf(dir)
  changing(dir, () => {
    remove(unfinished(next))
    writeCaFolder(unfinished(next), ca)
    if (existsSync(next)) rmSync(next, { recursive: true })
    renameSync(unfinished(next), next)
  })
}

/** Makes the CA of `next` the one of the folder, and the one of the folder that of `previous`. */
export function activateNext(dir: string): void {
  const [next, previous] = [nextOf(dir), previousOf(dir)]
  const ofOld = keyBelongs(dir, oldOf(dir))
  if (existsSync(join(dir, CA_FILES.rootKey)) && !ofOld && !keyBelongs(dir, next)) throw foreignKey(dir)
  if (existsSync(join(next, CA_FILES.rootKey)) && !keyBelongs(next, next)) throw foreignKey(next)
  const old = existsSync(previous) ? null : ALWAYS_THERE.map((name) => [name, readCaFile(dir, name)] as const)
  const names = Object.values(CA_FILES).filter((name) => existsSync(join(next, name)))
  const made = names.map((name) => [name, readCaFile(next, name)] as const)
  changing(dir, () => {
    if (old !== null) {
      remove(unfinished(previous))
      mkdirSync(unfinished(previous), { mode: 0o700 })
      for (const [name, content] of old) replaceFile(join(unfinished(previous), name), content, modeOf(name))
      renameSync(unfinished(previous), previous)
    }
    if (ofOld) renameSync(join(dir, CA_FILES.rootKey), join(previous, CA_FILES.rootKey))
    for (const [name, content] of made) replaceFile(join(dir, name), content, modeOf(name))
  })
}

/** Ends the activation. Where an earlier end was interrupted, this removes the key that it left. */
export function removeNext(dir: string): void {
  const next = nextOf(dir)
  changing(dir, () => {
    remove(unfinished(next))
    if (existsSync(next)) renameSync(next, unfinished(next))
    remove(unfinished(next))
  })
}

/** Renames `previous` to a name with `at`, RFC 3339. */
export function retirePrevious(dir: string, at: string): void {
  changing(dir, () => renameSync(previousOf(dir), join(dir, `${RETIRED}${at.replaceAll(':', '')}`)))
}

/** Writes a file for the owner alone, whole or not at all. It replaces a former one. */
export function writeSecretFile(dir: string, name: string, content: string): void {
  changing(dir, () => replaceFile(join(dir, name), content, 0o600))
}

/** Every file but the root's key, which may be kept elsewhere. */
const ALWAYS_THERE = [CA_FILES.root, CA_FILES.issuingKey, CA_FILES.issuing]

const modeOf = (name: string): number => (name === CA_FILES.rootKey || name === CA_FILES.issuingKey ? 0o600 : 0o644)

/** Whether the root's key in one folder is the key of the root in another. */
function keyBelongs(keyDir: string, rootDir: string): boolean {
  if (!existsSync(join(keyDir, CA_FILES.rootKey))) return false
  const [root] = readCaCertificates(rootDir, CA_FILES.root)
  try {
    return root.checkPrivateKey(createPrivateKey(readCaFile(keyDir, CA_FILES.rootKey)))
  } catch {
    return false
  }
}

const foreignKey = (dir: string): CommandError =>
  new CommandError(
    `${join(dir, CA_FILES.rootKey)} is not seen to be the key of a root here (has it a passphrase?): move it away first`,
  )

/** Also removes a key that an earlier attempt left half-written. */
function replaceFile(path: string, content: string, mode: number): void {
  removeTemporaries(path)
  writeAtomically(path, content, mode)
}

const remove = (path: string): void => rmSync(path, { recursive: true, force: true })

function changing(dir: string, work: () => void): void {
  try {
    work()
  } catch (error) {
    if (error instanceof CommandError) throw error
    throw new CommandError(`cannot write to ${dir}: ${codeOf(error)}`)
  }
}
