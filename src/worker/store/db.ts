// The database as the queries see it: D1 in the Worker, the same SQL through another driver in the CLI.

import { DrizzleQueryError, getTableColumns, type SQL, sql } from 'drizzle-orm'
import { type AnyD1Database, drizzle } from 'drizzle-orm/d1'
import type { BaseSQLiteDatabase, SQLiteTable } from 'drizzle-orm/sqlite-core'

/** Enough for single statements; both drivers have it. */
export type Database = BaseSQLiteDatabase<'async', unknown, Record<string, never>>

/** D1 itself, whose batch is one transaction. */
export type BatchDatabase = ReturnType<typeof openDatabase>

export const openDatabase = (binding: AnyD1Database) => drizzle(binding)

/** Whether an exception came from the database, or from an object that could not be reached: an outage, not a bug. */
export const isStorageOutage = (error: unknown): boolean => error instanceof DrizzleQueryError || isUnreachable(error)

/** The platform marks its own exceptions so; one that the object's code threw has neither mark. */
const isUnreachable = (error: unknown): boolean =>
  error instanceof Error &&
  (('retryable' in error && error.retryable === true) || ('overloaded' in error && error.overloaded === true))

/** Throws where the database does not answer or was never migrated. */
export async function pingDatabase(db: Database): Promise<void> {
  await db.get(sql`SELECT 1 FROM enrollment LIMIT 1`)
}

/** For `INSERT … SELECT`: the row where `condition` holds, nothing where not. Each value goes to the column of its name. */
export function rowWhere<T extends SQLiteTable>(table: T, row: T['$inferSelect'], condition: SQL): SQL {
  const values: Readonly<Record<string, unknown>> = row
  const columns = Object.entries(getTableColumns(table))
  const list = columns.map(([name, column]) => sql`${sql.param(values[name] ?? null, column)}`)
  return sql`SELECT ${sql.join(list, sql`, `)} WHERE ${condition}`
}
