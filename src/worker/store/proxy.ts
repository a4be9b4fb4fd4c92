// Opens the database for the CLI, which has no binding: the same queries, with each statement run by a function.

import { drizzle } from 'drizzle-orm/sqlite-proxy'
import type { Database } from './db.ts'

/** Runs one statement; gives the values of each row in the order of the columns. */
export type Execute = (sql: string, params: readonly unknown[]) => Promise<unknown[][]>

export const openThrough = (execute: Execute): Database =>
  drizzle(async (sql, params, method) => {
    const rows = await execute(sql, params)
    // drizzle takes `undefined` for a missing row, though its type does not allow it.
    return { rows: (method === 'get' ? rows[0] : rows) as unknown[] }
  })
