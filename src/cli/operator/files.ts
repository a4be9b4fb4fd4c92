// Reads files that the operator names, to a limit, and makes folders.

import { accessSync, constants, mkdirSync, statSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { readUpToLimit } from '../../node/bounded-file.ts'
import { codeOf } from '../../node/errors.ts'
import { err, ok, type Result } from '../../protocol/result.ts'
import { CommandError } from './command.ts'

/** The first `limit` bytes of a file. The error is what comes after the file's name in a sentence. */
export function readFirst(path: string, limit: number): Result<Uint8Array, string> {
  try {
    return ok(readUpToLimit(path, limit))
  } catch (error) {
    const code = codeOf(error)
    return err(code === 'ENOENT' ? 'does not exist' : `cannot be read (${code})`)
  }
}

/** A whole file of at most `limit` bytes; the error as for `readFirst`. */
export function readWhole(path: string, limit: number): Result<Uint8Array, string> {
  const file = readFirst(path, limit + 1)
  return file.ok && file.value.length > limit ? err(`has more than ${limit} bytes`) : file
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
