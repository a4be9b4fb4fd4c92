// RUNNER_SECRETS_DIR: the files of one tenant, read into memory at boot. Never written, never logged.

import { readdirSync, statSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'

/** File name → content. */
export type Secrets = ReadonlyMap<string, Uint8Array>

const MOST_FILES = 1000
const MOST_BYTES = 16 * 1024 * 1024

/** `tenant` is a slug: it cannot lead out of `folder`. Throws with the system's reason, or for too much. */
export async function readSecrets(folder: string, tenant: string): Promise<Secrets> {
  const own = join(folder, tenant)
  // A projected volume keeps its versions in folders that begin with two dots and links the files.
  const names = readdirSync(own).filter((name) => !name.startsWith('.') && statSync(join(own, name)).isFile())
  const size = names.reduce((sum, name) => sum + statSync(join(own, name)).size, 0)
  if (names.length > MOST_FILES || size > MOST_BYTES) {
    throw new Error(`${own} holds over ${MOST_FILES} files or ${MOST_BYTES / 1024 / 1024} MiB`)
  }
  return new Map(await Promise.all(names.map(async (name) => [name, await readFile(join(own, name))] as const)))
}
