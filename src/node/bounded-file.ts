// Reads a file to a limit, whatever it holds and however long it grows meanwhile.

import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs'

/** At most `limit` bytes of what the path leads to, a pipe or a device among it. Throws the system's error. */
export function readUpToLimit(path: string, limit: number): Uint8Array {
  const file = openSync(path, constants.O_RDONLY)
  try {
    return firstBytes(file, limit)
  } finally {
    closeSync(file)
  }
}

/**
 * The text of a regular file of at most `limit` bytes; throws otherwise. A pipe in its place does not hang. `flags`:
 * further ones to open it with, such as O_NOFOLLOW.
 */
export function readRegularFile(path: string, limit: number, flags = 0): string {
  const file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK | flags)
  try {
    if (!fstatSync(file).isFile()) throw new Error(`${path} is not a regular file`)
    const bytes = firstBytes(file, limit + 1)
    if (bytes.length > limit) throw new Error(`${path} is over ${limit} bytes`)
    return bytes.toString('utf8')
  } finally {
    closeSync(file)
  }
}

function firstBytes(file: number, limit: number): Buffer {
  const bytes = Buffer.alloc(limit)
  let length = 0
  for (let read = -1; read !== 0 && length < limit; length += read) {
    read = readSync(file, bytes, length, limit - length, null)
  }
  return bytes.subarray(0, length)
}
