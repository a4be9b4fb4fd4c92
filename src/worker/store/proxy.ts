// The database for a process that has no binding: the same queries, through whatever takes SQL to D1.

import { drizzle } from 'drizzle-orm/sqlite-proxy'
import type { Database } from './db.ts'

/** Runs one statement; gives the values of each row in the order of the columns. */
export type Execute = (sql: string, params: readonly unknown[]) => Promise<unknown[][]>

export const openThrough = (execute: Execute): Database =>
  drizzle(async (sql, params, method) => {
    const rows = await execute(sql, params)
    // drizzle takes `undefined` for a row that isn't there, though its type has no word for it.
    return { rows: (method === 'get' ? rows[0] : rows) as unknown[] }
  })
