// Reads the secrets of the runner's tenant from RUNNER_SECRETS_DIR.

import { readdirSync, statSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { messageOf } from '../../node/errors.ts'
import { err, ok, type Result } from '../../protocol/result.ts'

/** File name → content. Never written, never logged. */
export type Secrets = ReadonlyMap<string, Uint8Array>

const SECRET_FILES = 1000
const SECRET_BYTES = 16 * 1024 * 1024

/**
 * The files of `<folder>/<tenant>`; none without both. `tenant` is a slug: it cannot lead out of `folder`. The error is
 * a mistake of the configuration: the system's reason, or too much to read.
 */
export async function readSecrets(folder: string | null, tenant: string | null): Promise<Result<Secrets, string>> {
  if (folder === null || tenant === null) return ok(new Map())
  const own = join(folder, tenant)
  try {
    // A projected volume keeps its versions in folders that begin with two dots and links the files.
    const names = readdirSync(own).filter((name) => !name.startsWith('.') && statSync(join(own, name)).isFile())
    const size = names.reduce((sum, name) => sum + statSync(join(own, name)).size, 0)
    if (names.length > SECRET_FILES || size > SECRET_BYTES) {
      throw new Error(`${own} holds over ${SECRET_FILES} files or ${SECRET_BYTES / 1024 / 1024} MiB`)
    }
    return ok(new Map(await Promise.all(names.map(async (name) => [name, await readFile(join(own, name))] as const))))
  } catch (error) {
    return err(`RUNNER_SECRETS_DIR cannot be read: ${messageOf(error)}`)
  }
}
