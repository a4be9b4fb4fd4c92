// What all queries share: what runs them, their SQL, outages, and `INSERT … SELECT`. The Worker runs them on D1 (d1.ts), the
// CLI through proxy.ts.

import { getTableColumns, type SQL, sql } from 'drizzle-orm'
import { CasingCache } from 'drizzle-orm/casing'
import type { BaseSQLiteDatabase, SQLiteTable } from 'drizzle-orm/sqlite-core'

/** What the CLI has: drizzle's query builder. The Worker leaves it out: it is 10 KB of the bundle. */
export type Database = BaseSQLiteDatabase<'async', unknown, Record<string, never>>

/** Runs a statement; gives the values of each row in the order of the columns. The CLI's database is one, too. */
export interface Queries {
  readonly values: <Row extends unknown[]>(query: SQL) => Promise<Row[]>
}

/** The SQL of a query and its values, which may be placeholders. */
export function statementOf(query: SQL): { readonly text: string; readonly params: unknown[] } {
  const { sql: text, params } = query.toQuery(DIALECT)
  return { text, params }
}

const DIALECT = {
  casing: new CasingCache(),
  escapeName: (name: string) => `"${name.replaceAll('"', '""')}"`,
  escapeParam: () => '?',
  escapeString: (text: string) => `'${text.replaceAll("'", "''")}'`,
}

/** A statement or transaction that D1 did not run, in the words of D1: they name tables and columns, and no value. */
export class DatabaseError extends Error {
  constructor(cause: unknown) {
    super(cause instanceof Error ? cause.message : 'D1 did not say why', { cause })
  }
}

/** Whether an exception is an outage of the database or of a Durable Object, and not a bug. */
export const isStorageOutage = (error: unknown): boolean => error instanceof DatabaseError || isUnreachable(error)

/** Workers sets these properties on its own exceptions, not on those of an object's code. */
const isUnreachable = (error: unknown): boolean =>
  error instanceof Error &&
  (('retryable' in error && error.retryable === true) || ('overloaded' in error && error.overloaded === true))

/** Throws where the database does not answer or is not migrated. */
export async function pingDatabase(db: Queries): Promise<void> {
  await db.values(sql`SELECT 1 FROM enrollment LIMIT 1`)
}

/** Inserts the row if `condition` holds. */
export function insertWhere<T extends SQLiteTable>(table: T, row: T['$inferSelect'], condition: SQL): SQL {
  const values: Readonly<Record<string, unknown>> = row
  const columns = Object.entries(getTableColumns(table))
  const names = columns.map(([, column]) => sql.identifier(column.name))
  const list = columns.map(([name, column]) => sql`${sql.param(values[name] ?? null, column)}`)
  return sql`INSERT INTO ${table} (${sql.join(names, sql`, `)}) SELECT ${sql.join(list, sql`, `)} WHERE ${condition}`
}
