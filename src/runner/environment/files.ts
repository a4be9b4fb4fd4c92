// Reads files whose path a variable gives, up to a limit: one file as text, or the secrets of a tenant.

import { closeSync, constants, fstatSync, openSync, readdirSync, readSync, statSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'

/** The text of a regular file of at most `limit` bytes; throws otherwise. A pipe in its place does not hang. */
export function readBounded(path: string, limit: number, flags = 0): string {
  const file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK | flags)
  try {
    if (!fstatSync(file).isFile()) throw new Error(`${path} is not a regular file`)
    const bytes = Buffer.alloc(limit + 1)
    let length = 0
    for (let n = -1; n !== 0 && length <= limit; length += n) {
      n = readSync(file, bytes, length, bytes.length - length, null)
    }
    if (length > limit) throw new Error(`${path} is over ${limit} bytes`)
    return bytes.toString('utf8', 0, length)
  } finally {
    closeSync(file)
  }
}

/** File name → content. Never written, never logged. */
export type Secrets = ReadonlyMap<string, Uint8Array>

const SECRET_FILES = 1000
const SECRET_BYTES = 16 * 1024 * 1024

/**
 * The files of `<folder>/<tenant>`. `tenant` is a slug: it cannot lead out of `folder`. Throws with the system's
 * reason, or for too much.
 */
export async function readSecrets(folder: string, tenant: string): Promise<Secrets> {
  const own = join(folder, tenant)
  // A projected volume keeps its versions in folders that begin with two dots and links the files.
  const names = readdirSync(own).filter((name) => !name.startsWith('.') && statSync(join(own, name)).isFile())
  const size = names.reduce((sum, name) => sum + statSync(join(own, name)).size, 0)
  if (names.length > SECRET_FILES || size > SECRET_BYTES) {
    throw new Error(`${own} holds over ${SECRET_FILES} files or ${SECRET_BYTES / 1024 / 1024} MiB`)
  }
  return new Map(await Promise.all(names.map(async (name) => [name, await readFile(join(own, name))] as const)))
}
