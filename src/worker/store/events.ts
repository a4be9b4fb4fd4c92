// Table `event`: what was decided, 30 days of it; refusals at a capped rate.

import { desc, eq, lt, sql } from 'drizzle-orm'
import { integer, sqliteTable, text } from 'drizzle-orm/sqlite-core'
import type { Labels } from '../../protocol/refusals.ts'
import { type EpochSeconds, minutes, subtractSeconds } from '../../protocol/time.ts'
import { firstUuidv7At } from '../../protocol/uuid.ts'
import type { Database } from './db.ts'

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

/** Rows a minute, worldwide, of refused callers: enough to see what goes on, too few to fill or bill anything. */
const REFUSALS_A_MINUTE = { unproven: 50, proven: 45 }

export const insertEvent = async (db: Database, row: EventRow): Promise<void> => {
  await db.insert(event).values(row)
}

/**
 * Writes a refusal where fewer than the cap stand for the last minute. Those who proved something have a cap of
 * their own, so that garbage cannot hide them. The ids sort by time, so the count reads one minute of rows.
 */
export async function insertRefusal(db: Database, row: EventRow): Promise<void> {
  const cap = row.proven ? REFUSALS_A_MINUTE.proven : REFUSALS_A_MINUTE.unproven
  const since = firstUuidv7At(subtractSeconds(row.time, minutes(1)))
  await db.run(sql`INSERT INTO event (id, time, outcome, reason, proven, mode, tenant, source, identity, runner_id,
      enrollment_id, serial, spiffe_id, instance_id, colo, detail, claimed)
    SELECT ${row.id}, ${row.time}, ${row.outcome}, ${row.reason}, ${row.proven ? 1 : 0}, ${row.mode}, ${row.tenant},
      ${row.source}, ${row.identity}, ${row.runnerId}, ${row.enrollmentId}, ${row.serial}, ${row.spiffeId},
      ${row.instanceId}, ${row.colo}, ${row.detail}, ${row.claimed === null ? null : JSON.stringify(row.claimed)}
    WHERE (SELECT count(*) FROM (SELECT 1 FROM event
      WHERE id >= ${since} AND outcome = ${row.outcome} AND proven = ${row.proven ? 1 : 0} LIMIT ${cap})) < ${cap}`)
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
