// Applies `migrations/` to the local D1 the way `wrangler d1 migrations apply` does, in the same table.

import type { Miniflare } from 'miniflare'
import type { Migration } from './project.ts'

type D1 = Awaited<ReturnType<Miniflare['getD1Database']>>

const TABLE = `CREATE TABLE IF NOT EXISTS d1_migrations (
  id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE, applied_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP NOT NULL)`

/** Each migration is one transaction together with its row. */
export async function applyMigrations(database: D1, migrations: readonly Migration[]): Promise<void> {
  await database.prepare(TABLE).run()
  const { results } = await database.prepare('SELECT name FROM d1_migrations').all<{ name: string }>()
  const applied = new Set(results.map(({ name }) => name))
  for (const { name, statements } of migrations.filter((migration) => !applied.has(migration.name))) {
    const row = database.prepare('INSERT INTO d1_migrations (name) VALUES (?)').bind(name)
    await database.batch([...statements.map((sql) => database.prepare(sql)), row])
  }
}
