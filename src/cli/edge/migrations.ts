// Applies `migrations/` to the local D1 the way `wrangler d1 migrations apply` does, in the same table.

import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Miniflare } from 'miniflare'

type D1 = Awaited<ReturnType<Miniflare['getD1Database']>>

const TABLE = `CREATE TABLE IF NOT EXISTS d1_migrations (
  id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE, applied_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP NOT NULL)`

/** Each file is one transaction together with its row. */
export async function applyMigrations(database: D1, folder: string): Promise<void> {
  await database.prepare(TABLE).run()
  const { results } = await database.prepare('SELECT name FROM d1_migrations').all<{ name: string }>()
  const applied = new Set(results.map(({ name }) => name))
  const pending = readdirSync(folder)
    .filter((name) => name.endsWith('.sql') && !applied.has(name))
    .sort()
  if (pending.length === 0) return
  const { unstable_splitSqlQuery: split } = await import('wrangler')
  for (const name of pending) {
    const statements = split(readFileSync(join(folder, name), 'utf8')).map((sql) => database.prepare(sql))
    await database.batch([...statements, database.prepare('INSERT INTO d1_migrations (name) VALUES (?)').bind(name)])
  }
}
