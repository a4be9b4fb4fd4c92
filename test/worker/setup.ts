// Every test file in workerd starts on a migrated database.
import { applyD1Migrations, type D1Migration, env } from 'cloudflare:test'

declare global {
  namespace Cloudflare {
    interface Env {
      readonly DB: D1Database
      readonly KEYS: KVNamespace
      readonly MIGRATIONS: D1Migration[]
    }
  }
}

await applyD1Migrations(env.DB, env.MIGRATIONS)
