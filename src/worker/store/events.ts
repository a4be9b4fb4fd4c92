// Table `event`: the outcome of each request, kept for 30 days; refusals at a capped rate. journal.ts adds the others.

import { desc, eq, sql } from 'drizzle-orm'
import { integer, sqliteTable, text } from 'drizzle-orm/sqlite-core'
import type { Labels } from '../../protocol/refusals.ts'
import { type EpochSeconds, type Seconds, seconds, subtractSeconds } from '../../protocol/time.ts'
import { firstUuidv7At } from '../../protocol/uuid.ts'
import { type Database, insertWhere, type Queries } from './db.ts'
import { BURST, BURST_SPAN, RARE_SPAN } from './refusal-cap.ts'

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

/**
 * Writes a refusal within the caps of refusal-cap.ts, counted over the rows of all isolates. Ids sort by time, so it
 * reads a minute of rows at most.
 */
export async function insertRefusal(db: Queries, row: EventRow): Promise<void> {
  const since = (span: Seconds) => firstUuidv7At(subtractSeconds(row.time, span))
  const alike = sql`outcome = ${row.outcome} AND proven = ${row.proven ? 1 : 0} AND tenant IS ${row.tenant}`
  const burst = row.proven ? BURST.proven : BURST.unproven
  const rare = sql`${row.proven ? 1 : 0} AND NOT EXISTS (SELECT 1 FROM event
    WHERE id >= ${since(RARE_SPAN)} AND ${alike} AND reason = ${row.reason})`
  const recent = sql`(SELECT count(*) FROM (SELECT 1 FROM event WHERE id >= ${since(BURST_SPAN)} AND ${alike} LIMIT ${burst}))`
  const noneThisSecond = sql`NOT EXISTS (SELECT 1 FROM event WHERE id >= ${since(seconds(0))} AND ${alike})`
  await db.values(insertWhere(event, row, sql`${recent} < ${burst} OR ${noneThisSecond} OR (${rare})`))
}

/** Newest first. */
export const listEvents = (db: Database, limit: number): Promise<EventRow[]> =>
  db.select().from(event).orderBy(desc(event.id)).limit(limit)

export async function findEvent(db: Database, id: string): Promise<EventRow | null> {
  return (await db.select().from(event).where(eq(event.id, id)).limit(1))[0] ?? null
}

/** Deletes what is older than `before`. */
export const pruneEvents = async (db: Queries, before: EpochSeconds): Promise<void> => {
  await db.values(sql`DELETE FROM event WHERE id < ${firstUuidv7At(before)}`)
}
