// Runs before each test file in workerd: migrates and empties the database, since the files share one workerd.
import { applyD1Migrations, type D1Migration, env } from 'cloudflare:test'
import type { EnrollmentObject } from '../../src/worker/fleet/enrollment-object.ts'
import type { KeyDirectory } from '../../src/worker/keysets/key-directory.ts'

declare global {
  namespace Cloudflare {
    interface Env {
      readonly DB: D1Database
      readonly SHARD_1: D1Database
      readonly SHARD_2: D1Database
      readonly KEYS: KVNamespace
      readonly ENROLLMENTS: DurableObjectNamespace<EnrollmentObject>
      readonly KEY_DIRECTORY: DurableObjectNamespace<KeyDirectory>
      readonly MIGRATIONS: D1Migration[]
    }
  }
}

for (const database of [env.DB, env.SHARD_1, env.SHARD_2]) {
  await applyD1Migrations(database, env.MIGRATIONS)
  await database.batch(['token', 'enrollment', 'ban', 'event'].map((table) => database.prepare(`DELETE FROM ${table}`)))
}
