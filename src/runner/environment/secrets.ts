// Reads the secrets of the runner's tenant from RUNNER_SECRETS_DIR.

import { readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { readRegularBytes } from '../../node/bounded-file.ts'
import { messageOf } from '../../node/errors.ts'
import { err, ok, type Result } from '../../protocol/result.ts'

/** File name → content. Never written, never logged. */
export type Secrets = ReadonlyMap<string, Uint8Array>

const SECRET_FILES = 1000
const SECRET_BYTES = 16 * 1024 * 1024

/** How much a file may have grown since its size was read. Files of the kernel report size 0. */
const GROWTH_BYTES = 64 * 1024

/**
 * The files of `<folder>/<tenant>`; none without both. `tenant` is a slug: it cannot lead out of `folder`. The error is
 * a mistake of the configuration: the system's reason, or too much to read.
 */
export function readSecrets(folder: string | null, tenant: string | null): Result<Secrets, string> {
  if (folder === null || tenant === null) return ok(new Map())
  const own = join(folder, tenant)
  const secrets = new Map<string, Uint8Array>()
  let room = SECRET_BYTES
  try {
    // A projected volume keeps its versions in folders that begin with two dots and links the files.
    const names = readdirSync(own).filter((name) => !name.startsWith('.') && statSync(join(own, name)).isFile())
    if (names.length > SECRET_FILES) throw new Error(`${own} holds over ${SECRET_FILES} files`)
    for (const name of names) {
      const path = join(own, name)
      const { size } = statSync(path)
      room -= size
      if (room < 0) throw new Error(`${own} holds over ${SECRET_BYTES / 1024 / 1024} MiB`)
      // A copy, since the bytes read lie in a buffer of the limit's size.
      secrets.set(name, Uint8Array.from(readRegularBytes(path, size + GROWTH_BYTES)))
    }
    return ok(secrets)
  } catch (error) {
    return err(`RUNNER_SECRETS_DIR cannot be read: ${messageOf(error)}`)
  }
}
