// Opens D1, and what all queries share: their types, outages, and `INSERT … SELECT`. The CLI runs them through proxy.ts.

import { DrizzleQueryError, getTableColumns, type SQL, sql } from 'drizzle-orm'
import { type AnyD1Database, drizzle } from 'drizzle-orm/d1'
import type { BaseSQLiteDatabase, SQLiteTable } from 'drizzle-orm/sqlite-core'

/** Runs single statements, through either driver. */
export type Database = BaseSQLiteDatabase<'async', unknown, Record<string, never>>

/** D1, whose batch is one transaction. */
export type BatchDatabase = ReturnType<typeof openDatabase>

export const openDatabase = (binding: AnyD1Database) => drizzle(binding)

/** Whether an exception is an outage of the database or of a Durable Object, and not a bug. */
export const isStorageOutage = (error: unknown): boolean =>
  error instanceof DrizzleQueryError || error instanceof BatchError || isUnreachable(error)

/** Workers sets these properties on its own exceptions, not on those of an object's code. */
const isUnreachable = (error: unknown): boolean =>
  error instanceof Error &&
  (('retryable' in error && error.retryable === true) || ('overloaded' in error && error.overloaded === true))

/** Throws where the database does not answer or is not migrated. */
export async function pingDatabase(db: Database): Promise<void> {
  await db.get(sql`SELECT 1 FROM enrollment LIMIT 1`)
}

/** A transaction that D1 did not run. */
export class BatchError extends Error {}

/** For `INSERT … SELECT`: selects the row if `condition` holds, else nothing. Values are matched to columns by name. */
export function rowWhere<T extends SQLiteTable>(table: T, row: T['$inferSelect'], condition: SQL): SQL {
  const values: Readonly<Record<string, unknown>> = row
  const columns = Object.entries(getTableColumns(table))
  const list = columns.map(([name, column]) => sql`${sql.param(values[name] ?? null, column)}`)
  return sql`SELECT ${sql.join(list, sql`, `)} WHERE ${condition}`
}
