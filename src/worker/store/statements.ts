// Statements for every request: their SQL is built once an isolate. To build it anew for each request was 12 % of an
// enrollment.

import { fillPlaceholders, getTableColumns, getTableName, type SQL } from 'drizzle-orm'
import type { SQLiteTable } from 'drizzle-orm/sqlite-core'
import { DatabaseError, statementOf } from './db.ts'

/** A statement with named values, ready to be bound. */
export type Statement = (
  db: D1Database,
  values: Readonly<Record<string, string | number | null>>,
) => D1PreparedStatement

/**
 * Builds the SQL of a statement once, for use on every request. Values are `sql.placeholder`s.
 */
export function compileStatement(query: SQL): Statement {
  const { text, params } = statementOf(query)
  return (db, values) => db.prepare(text).bind(...fillPlaceholders(params, values))
}

/** Inserts any number of rows, as one value in JSON: D1 charges its time by the statement. */
export function compileInsertAll<T extends SQLiteTable>(table: T) {
  const columns = Object.entries(getTableColumns(table))
  const names = columns.map(([, { name }]) => name).join(', ')
  const values = columns.map((_, i) => `new.value ->> ${i}`).join(', ')
  const text = `INSERT INTO ${getTableName(table)} (${names}) SELECT ${values} FROM json_each(?) AS new`
  const valuesOf = (row: Readonly<Record<string, unknown>>) =>
    columns.map(([name, column]) => {
      const value = row[name] ?? null
      return value === null ? null : column.mapToDriverValue(value)
    })
  return (db: D1Database, rows: readonly T['$inferSelect'][]): D1PreparedStatement =>
    db.prepare(text).bind(JSON.stringify(rows.map(valuesOf)))
}

/** Statements in one transaction and one round trip. Gives the rows of the last one, by the names of their columns. */
export async function runBatch<Row>(db: D1Database, statements: D1PreparedStatement[]): Promise<Row[]> {
  try {
    return (await db.batch<Row>(statements)).at(-1)?.results ?? []
  } catch (cause) {
    throw new DatabaseError(cause)
  }
}
