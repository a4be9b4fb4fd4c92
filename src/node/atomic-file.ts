// Writes a file that is whole or not there at all: to a temporary file beside it, flushed, renamed over it, and the
// folder flushed.

import { randomBytes } from 'node:crypto'
import { closeSync, fchmodSync, fsyncSync, openSync, readdirSync, renameSync, rmSync, writeSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { messageOf } from './errors.ts'

const TEMPORARY = '.tmp-'

/**
 * The file has `mode` whatever the umask or the mode of a file that stood there. Throws where it cannot be done; then
 * the old file stands as it was and no temporary one is left.
 */
export function writeAtomically(path: string, text: string, mode = 0o600): void {
  const temporary = temporaryOf(path)
  try {
    rmSync(temporary, { force: true })
    // Nobody else reads it before its mode is set.
    const file = openSync(temporary, 'wx', 0o600)
    try {
      fchmodSync(file, mode)
      writeAll(file, text)
      fsyncSync(file)
    } finally {
      closeSync(file)
    }
    renameSync(temporary, path)
  } catch (error) {
    rmSync(temporary, { force: true })
    throw named(error, temporary)
  }
  flushFolder(dirname(path))
}

/** The system's error; where it is about an open file, which it does not name, with the path. */
function named(error: unknown, path: string): Error {
  if (error instanceof Error && 'path' in error) return error
  const known = { ...(error instanceof Error && error), path }
  return Object.assign(new Error(`${messageOf(error)} '${path}'`, { cause: error }), known)
}

const temporaryOf = (path: string): string => `${path}${TEMPORARY}${process.pid}`

function writeAll(file: number, text: string): void {
  const bytes = Buffer.from(text)
  for (let written = 0; written < bytes.length; ) written += writeSync(file, bytes, written)
}

/** A rename is on disk when its folder is; some file systems cannot flush one, and then nothing can be done. */
function flushFolder(folder: string): void {
  try {
    const directory = openSync(folder, 'r')
    try {
      fsyncSync(directory)
    } finally {
      closeSync(directory)
    }
  } catch {
    // The file itself is flushed and in its place.
  }
}

/**
 * Throws where `writeAtomically` would for a text of `length` bytes, and where `look` does, which gets the path of the
 * file that was written. It lies beside `path` and is gone again.
 */
export function tryWriting(path: string, length: number, look: (trial: string) => void): void {
  const trial = `${temporaryOf(path)}-trial`
  try {
    // Random: some file systems compress.
    writeAtomically(trial, randomBytes(length / 2).toString('hex'))
    look(trial)
  } finally {
    rmSync(trial, { force: true })
  }
}

/** Removes what a killed process left half-written beside `path`. */
export function removeTemporaries(path: string): void {
  const folder = dirname(path)
  for (const entry of readdirSync(folder)) {
    if (entry.startsWith(`${basename(path)}${TEMPORARY}`)) rmSync(join(folder, entry), { force: true })
  }
}
