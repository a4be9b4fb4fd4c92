// Opens D1 for the Worker.

import type { SQL } from 'drizzle-orm'
import { DatabaseError, type Queries, statementOf } from './db.ts'

export interface WorkerDatabase extends Queries {
  readonly d1: D1Database
}

export const openDatabase = (d1: D1Database): WorkerDatabase => ({
  d1,
  values: async <Row extends unknown[]>(query: SQL) => {
    const { text, params } = statementOf(query)
    try {
      return await d1
        .prepare(text)
        .bind(...params)
        .raw<Row>()
    } catch (cause) {
      throw new DatabaseError(cause)
    }
  },
})
