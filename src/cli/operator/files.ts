// Files and folders that the operator names: read up to a bound, made where that is possible.

import { accessSync, closeSync, constants, mkdirSync, openSync, readSync, statSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { err, ok, type Result } from '../../protocol/result.ts'
import { CommandError } from './command.ts'

/** At most `limit` bytes, whatever the path leads to. The error is what comes after the file's name in a sentence. */
export function readUpTo(path: string, limit: number): Result<Uint8Array, string> {
  const bytes = new Uint8Array(limit)
  let length = 0
  try {
    const file = openSync(path, 'r')
    try {
      for (let read = -1; read !== 0 && length < limit; length += read)
        read = readSync(file, bytes, length, limit - length, null)
    } finally {
      closeSync(file)
    }
  } catch (error) {
    const code = codeOf(error)
    return err(code === 'ENOENT' ? 'does not exist' : `cannot be read (${code})`)
  }
  return ok(bytes.subarray(0, length))
}

/** Makes a folder and those above it, or says why what the operator named cannot be written to. */
export function makeFolder(path: string, named = path): void {
  if (named === '') throw new CommandError('"" names no folder')
  try {
    makeMissing(resolve(path))
    accessSync(path, constants.W_OK | constants.X_OK)
  } catch (error) {
    throw new CommandError(`cannot write to ${named}: ${codeOf(error)}`)
  }
}

/** One by one: where a file system has no new folders (/proc), Node's `recursive` tries for ever. */
function makeMissing(path: string): void {
  const found = statSync(path, { throwIfNoEntry: false })
  if (found?.isDirectory()) return
  if (found !== undefined) throw Object.assign(new Error(), { code: 'ENOTDIR' })
  makeMissing(dirname(path))
  try {
    mkdirSync(path, { mode: 0o700 })
  } catch (error) {
    // Another process was first.
    if (codeOf(error) !== 'EEXIST') throw error
  }
}

/** The system's code of an error (`ENOENT`), which quotes no content. */
export const codeOf = (error: unknown): string =>
  error instanceof Error && 'code' in error ? String(error.code) : 'unknown error'
