// Files that are whole or not there: written beside their place, flushed, renamed over it, mode 600 whatever the umask
// or the mode of a file that stood there.

import { closeSync, fchmodSync, fsyncSync, openSync, readdirSync, renameSync, rmSync, writeSync } from 'node:fs'
import { join } from 'node:path'

const TEMPORARY = '.tmp-'

/** Throws where it cannot be done; then the old file stands as it was and no temporary one is left. */
export function writeAtomically(folder: string, name: string, text: string): void {
  const temporary = join(folder, `${name}${TEMPORARY}${process.pid}`)
  try {
    rmSync(temporary, { force: true })
    const file = openSync(temporary, 'wx', 0o600)
    try {
      fchmodSync(file, 0o600)
      writeAll(file, text)
      fsyncSync(file)
    } finally {
      closeSync(file)
    }
    renameSync(temporary, join(folder, name))
  } catch (error) {
    rmSync(temporary, { force: true })
    throw error
  }
  flushFolder(folder)
}

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

/** Throws where `writeAtomically` would, with a file of the same name that is gone again. */
export function tryWriting(folder: string, name: string): void {
  const temporary = join(folder, `${name}${TEMPORARY}${process.pid}`)
  closeSync(openSync(temporary, 'wx', 0o600))
  rmSync(temporary)
}

/** Removes what a killed process left half-written. */
export function removeTemporaries(folder: string, name: string): void {
  for (const entry of readdirSync(folder)) {
    if (entry.startsWith(`${name}${TEMPORARY}`)) rmSync(join(folder, entry), { force: true })
  }
}
