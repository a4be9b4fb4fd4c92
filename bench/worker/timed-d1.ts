// Entry file of a Worker for the bench: as `muster dev` runs it, with the time taken that its calls to D1 last.

import compiled from '#trust'
import { parseCompiledTrust } from '../../src/trust/compiled.ts'
import { compose } from '../../src/worker/compose.ts'
import type { Env } from '../../src/worker/env.ts'
import { behindLocalEdge } from '../../src/worker/local-edge.ts'

const muster = compose(await parseCompiledTrust(compiled), { plainHttp: true, developmentCa: true })

export const { EnrollmentObject, KeyDirectory } = muster

/** Path that gives what was counted since it was last asked. */
const D1_TIMES = '/d1-times'

const NOTHING = { calls: 0, milliseconds: 0, sqlMilliseconds: 0, rowsRead: 0, rowsWritten: 0 }
let counted = { ...NOTHING }

export default behindLocalEdge<Env>({
  fetch: async (request, env, context) => {
    if (new URL(request.url).pathname !== D1_TIMES) return muster.fetch(request, withTimedD1(env), context)
    const response = Response.json(counted)
    counted = { ...NOTHING }
    return response
  },
  scheduled: (event, env, context) => muster.scheduled(event, env, context),
})

const wrapped = new WeakMap<Env, Env>()

/** The same environment each time, as an isolate has one. */
function withTimedD1(env: Env): Env {
  const known = wrapped.get(env)
  if (known !== undefined) return known
  const timed = { ...env, DB: timedDatabase(env.DB) }
  wrapped.set(env, timed)
  return timed
}

/** An enrollment asks in batches alone; what else it asks goes through untimed. */
const timedDatabase = (database: D1Database): D1Database =>
  new Proxy(database, {
    get: (_, name) => {
      if (name === 'batch') return (statements: D1PreparedStatement[]) => timedBatch(database, statements)
      const value: unknown = Reflect.get(database, name, database)
      return typeof value === 'function' ? value.bind(database) : value
    },
  })

async function timedBatch(database: D1Database, statements: D1PreparedStatement[]): Promise<D1Result[]> {
  // The clock of workerd stands still but for I/O, and this is I/O alone.
  const from = Date.now()
  const results = await database.batch(statements)
  counted.milliseconds += Date.now() - from
  counted.calls++
  for (const { meta } of results) {
    counted.sqlMilliseconds += meta.duration
    counted.rowsRead += meta.rows_read
    counted.rowsWritten += meta.rows_written
  }
  return results
}
