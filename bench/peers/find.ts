// Finds the program of a peer: on the PATH, in the folder MUSTER_PEERS, or built from its module.

import { execFile, execFileSync } from 'node:child_process'
import { accessSync, closeSync, constants, existsSync, mkdirSync, openSync, renameSync, statSync } from 'node:fs'
import { delimiter, join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { PROJECT } from '../../test/end-to-end/processes.ts'
import { buildModule, type Module } from './modules.ts'

const CACHE = join(PROJECT, '.wrangler/peers')

export interface Found {
  readonly path: string
  /** Where it comes from, for the table. */
  readonly from: string
}

/** Throws with the reason where it cannot be had. `module` null: it can only be found. */
export async function findProgram(
  program: string,
  module: Module | null,
  say: (what: string) => void,
  ending: AbortSignal,
): Promise<Found> {
  const onPath = (process.env.PATH ?? '')
    .split(delimiter)
    .map((folder) => resolve(folder, program))
    .find(isProgram)
  if (onPath !== undefined) return { path: onPath, from: 'PATH' }
  const folder = process.env.MUSTER_PEERS
  const given = folder === undefined || folder === '' ? null : fromFolder(folder, program)
  if (given !== null) return { path: given, from: 'MUSTER_PEERS' }
  const where = `${program} is neither on the PATH nor in the folder MUSTER_PEERS`
  if (module === null) throw new Error(`${where}, and its module is not served to be built from`)
  const name = `${module.path}@${module.version}`
  const built = join(CACHE, `${program}-${module.version}`)
  if (!isProgram(built)) {
    say(`building ${name}, once: it takes minutes`)
    await buildModule(module, CACHE, built, ending).catch((error: Error) => {
      throw new Error(`${where}, and ${name} was not built: ${error.message}`)
    })
  }
  return { path: built, from: name }
}

/** The first line that it prints of itself. */
export async function versionOf(path: string, args: readonly string[]): Promise<string> {
  const { stdout, stderr } = await promisify(execFile)(path, args)
  return `${stdout}${stderr}`.trim().split('\n')[0] ?? 'unknown version'
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}

/** A compressed one is unpacked into the cache, once. */
function fromFolder(folder: string, program: string): string | null {
  const plain = resolve(folder, program)
  if (isProgram(plain)) return plain
  const packed = `${plain}.xz`
  if (!existsSync(packed)) return null
  const unpacked = join(CACHE, program)
  if (isProgram(unpacked) && statSync(unpacked).mtimeMs > statSync(packed).mtimeMs) return unpacked
  mkdirSync(CACHE, { recursive: true })
  const half = openSync(`${unpacked}.new`, 'w', 0o755)
  try {
    execFileSync('xz', ['-dc', packed], { stdio: ['ignore', half, 'pipe'] })
  } finally {
    closeSync(half)
  }
  renameSync(`${unpacked}.new`, unpacked)
  return unpacked
}
