// Reads a file up to a limit, which holds even if the file grows meanwhile.

import { closeSync, constants, fstatSync, openSync, readSync, type Stats } from 'node:fs'

/** At most `limit` bytes of a file of any kind, such as a pipe or a device. Throws the system's error. */
export function readUpToLimit(path: string, limit: number): Uint8Array {
  const file = openSync(path, constants.O_RDONLY)
  try {
    return firstBytes(file, limit)
  } finally {
    closeSync(file)
  }
}

/** Throws where an opened file must not be read. `file`: its descriptor. */
type Inspect = (stats: Stats, file: number) => void

/** The text of a regular file, as `readRegularBytes` reads it. */
export const readRegularFile = (path: string, limit: number, flags = 0, inspect?: Inspect): string =>
  readRegularBytes(path, limit, flags, inspect).toString('utf8')

/**
 * The bytes of a regular file of at most `limit` bytes. Throws for any other file; a pipe does not make it hang.
 * `flags`: more flags to open it with, such as O_NOFOLLOW.
 */
export function readRegularBytes(path: string, limit: number, flags = 0, inspect: Inspect = () => {}): Buffer {
  const file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK | flags)
  try {
    const stats = fstatSync(file)
    if (!stats.isFile()) throw new Error(`${path} is not a regular file`)
    inspect(stats, file)
    const bytes = firstBytes(file, limit + 1)
    if (bytes.length > limit) throw new Error(`${path} is over ${limit} bytes`)
    return bytes
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
