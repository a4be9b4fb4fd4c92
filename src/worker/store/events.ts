// Table `event`: what was decided, 30 days of it; refusals at a capped rate.

import { desc, eq, lt, sql } from 'drizzle-orm'
import { integer, sqliteTable, text } from 'drizzle-orm/sqlite-core'
import type { Labels } from '../../protocol/refusals.ts'
import { type EpochSeconds, type Seconds, seconds, subtractSeconds } from '../../protocol/time.ts'
import { firstUuidv7At } from '../../protocol/uuid.ts'
import type { Database } from './db.ts'
import { BURST, BURST_SPAN, RARE_SPAN } from './refusal-gate.ts'

export const event = sqliteTable('event', {
  id: text().primaryKey(),
  time: integer().$type<EpochSeconds>().notNull(),
  outcome: text().notNull(),
  reason: text(),
  proven: integer({ mode: 'boolean' }).notNull(),
  mode: text(),
  tenant: text(),
  source: text(),
  identity: text(),
  runnerId: text('runner_id'),
  enrollmentId: text('enrollment_id'),
  serial: text(),
  spiffeId: text('spiffe_id'),
  instanceId: text('instance_id'),
  colo: text(),
  detail: text(),
  claimed: text({ mode: 'json' }).$type<Labels>(),
})

export type EventRow = typeof event.$inferSelect

export const insertEvent = async (db: Database, row: EventRow): Promise<void> => {
  await db.insert(event).values(row)
}

/**
 * Writes a refusal where the rule of refusal-gate.ts gives it room, counted over what all isolates have written. The
 * ids sort by time, so a minute of rows is read at most.
 */
export async function insertRefusal(db: Database, row: EventRow): Promise<void> {
  const since = (span: Seconds) => firstUuidv7At(subtractSeconds(row.time, span))
  const alike = sql`outcome = ${row.outcome} AND proven = ${row.proven ? 1 : 0}`
  const burst = row.proven ? BURST.proven : BURST.unproven
  const rare = sql`${row.proven ? 1 : 0} AND NOT EXISTS (SELECT 1 FROM event
    WHERE id >= ${since(RARE_SPAN)} AND ${alike} AND reason = ${row.reason})`
  await db.run(sql`INSERT INTO event (id, time, outcome, reason, proven, mode, tenant, source, identity, runner_id,
      enrollment_id, serial, spiffe_id, instance_id, colo, detail, claimed)
    SELECT ${row.id}, ${row.time}, ${row.outcome}, ${row.reason}, ${row.proven ? 1 : 0}, ${row.mode}, ${row.tenant},
      ${row.source}, ${row.identity}, ${row.runnerId}, ${row.enrollmentId}, ${row.serial}, ${row.spiffeId},
      ${row.instanceId}, ${row.colo}, ${row.detail}, ${row.claimed === null ? null : JSON.stringify(row.claimed)}
    WHERE (SELECT count(*) FROM (SELECT 1 FROM event WHERE id >= ${since(BURST_SPAN)} AND ${alike} LIMIT ${burst})) < ${burst}
      OR NOT EXISTS (SELECT 1 FROM event WHERE id >= ${since(seconds(0))} AND ${alike})
      OR (${rare})`)
}

/** Newest first. */
export const listEvents = (db: Database, limit: number): Promise<EventRow[]> =>
  db.select().from(event).orderBy(desc(event.id)).limit(limit)

export async function findEvent(db: Database, id: string): Promise<EventRow | null> {
  return (await db.select().from(event).where(eq(event.id, id)).limit(1))[0] ?? null
}

/** Forgets what is older than `before`. */
export const pruneEvents = async (db: Database, before: EpochSeconds): Promise<void> => {
  await db.delete(event).where(lt(event.id, firstUuidv7At(before)))
}
