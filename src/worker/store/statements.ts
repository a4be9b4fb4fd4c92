// Statements for every request: their SQL is built once an isolate. drizzle's builder, which makes it anew for each request,
// was 12 % of an enrollment. The other queries use the builder.

import { fillPlaceholders, getTableColumns, getTableName, type SQL } from 'drizzle-orm'
import { SQLiteAsyncDialect, type SQLiteTable } from 'drizzle-orm/sqlite-core'
import { BatchError } from './db.ts'

/** A statement with named values, ready to be bound. */
export type Statement = (
  db: D1Database,
  values: Readonly<Record<string, string | number | null>>,
) => D1PreparedStatement

/**
 * Builds the SQL of a statement once, for use on every request: drizzle builds it anew each time, which was 12 % of an
 * enrollment. Values are `sql.placeholder`s.
 */
export function compileStatement(query: SQL): Statement {
  const { sql: text, params } = new SQLiteAsyncDialect().sqlToQuery(query)
  return (db, values) => db.prepare(text).bind(...fillPlaceholders(params, values))
}

/** `INSERT` of one row, its SQL built once. */
export function compileInsert<T extends SQLiteTable>(table: T) {
  const columns = Object.entries(getTableColumns(table))
  const names = columns.map(([, { name }]) => name).join(', ')
  const text = `INSERT INTO ${getTableName(table)} (${names}) VALUES (${columns.map(() => '?').join(', ')})`
  return (db: D1Database, row: T['$inferSelect']): D1PreparedStatement => {
    const given: Readonly<Record<string, unknown>> = row
    const values = columns.map(([name, column]) => {
      const value = given[name] ?? null
      return value === null ? null : column.mapToDriverValue(value)
    })
    return db.prepare(text).bind(...values)
  }
}

/** Statements in one transaction and one round trip. Gives the rows of the last one, by the names of their columns. */
export async function runBatch<Row>(db: D1Database, statements: D1PreparedStatement[]): Promise<Row[]> {
  try {
    return (await db.batch<Row>(statements)).at(-1)?.results ?? []
  } catch (cause) {
    throw new BatchError('a batch failed', { cause })
  }
}
