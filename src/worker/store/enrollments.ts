// Table `enrollment`: each enrollment with its first certificate, and its fleet row. reservations.ts adds the rows.

import { and, eq, gte, inArray, isNull, ne, or, type SQLWrapper, sql } from 'drizzle-orm'
import { integer, sqliteTable, text } from 'drizzle-orm/sqlite-core'
import { CLOCK_LEEWAY, RENEWAL_GRACE } from '../../protocol/limits.ts'
import { LINEAGE_STARTING_MODES, type ProvenMode } from '../../protocol/modes.ts'
import { type EpochSeconds, hours, seconds, subtractSeconds } from '../../protocol/time.ts'
import type { Claims } from '../../trust/modes/registry.ts'
import type { Database, Queries } from './db.ts'

export const enrollment = sqliteTable('enrollment', {
  enrollmentId: text('id').primaryKey(),
  mode: text().$type<ProvenMode>().notNull(),
  source: text().notNull(),
  tenant: text().notNull(),
  identity: text().notNull(),
  runnerId: text('runner_id'),
  tokenId: text('token_id'),
  claims: text({ mode: 'json' }).$type<Claims>().notNull(),
  instanceId: text('instance_id'),
  enrolledAt: integer('enrolled_at').$type<EpochSeconds>().notNull(),
  publicKeyHash: text('public_key_hash').notNull(),
  serial: text().notNull(),
  trustDomain: text('trust_domain').notNull(),
  notBefore: integer('not_before').$type<EpochSeconds>().notNull(),
  notAfter: integer('not_after').$type<EpochSeconds>().notNull(),
  issuer: text().notNull(),
  signature: text(),
  begunAt: integer('begun_at').$type<EpochSeconds>(),
  seenAt: integer('seen_at').$type<EpochSeconds>().notNull(),
  liveUntil: integer('live_until').$type<EpochSeconds>().notNull(),
  connected: integer({ mode: 'boolean' }).notNull().default(false),
  agent: text(),
  newestIssuer: text('newest_issuer'),
  endedAt: integer('ended_at').$type<EpochSeconds>(),
  endedReason: text('ended_reason'),
  cutAt: integer('cut_at').$type<EpochSeconds>(),
  drainAt: integer('drain_at').$type<EpochSeconds>(),
})

export type EnrollmentRow = typeof enrollment.$inferSelect

export async function findEnrollment(db: Database, id: string): Promise<EnrollmentRow | null> {
  return (await db.select().from(enrollment).where(eq(enrollment.enrollmentId, id)).limit(1))[0] ?? null
}

/** Records a certificate of `muster ca issue`. */
export const insertProvisioned = async (db: Database, row: typeof enrollment.$inferInsert): Promise<void> => {
  await db.insert(enrollment).values(row)
}

/**
 * Whether an enrollment may still be live at `now`. Its newest certificate ends at most an hour later than the row says
 * (fleet/fleet-row.ts), and may be renewed for a while after that.
 */
export const mayLive = (now: EpochSeconds) =>
  and(isNull(enrollment.endedAt), gte(enrollment.liveUntil, subtractSeconds(now, ROW_LAG)))

/** How long after `live_until` an enrollment may still be live. */
export const ROW_LAG = seconds(hours(1) + RENEWAL_GRACE + CLOCK_LEEWAY)

/** Other enrollments of a runner ID that may be live, the newest first: `limit` leaves out only the oldest. */
export async function sharersOf(
  db: Queries,
  { runnerId, enrollmentId }: { readonly runnerId: string; readonly enrollmentId: string },
  now: EpochSeconds,
  limit: number,
): Promise<string[]> {
  const others = and(eq(enrollment.runnerId, runnerId), ne(enrollment.enrollmentId, enrollmentId), mayLive(now))
  const found = await db.values<[string]>(
    sql`SELECT id FROM enrollment WHERE ${others} ORDER BY live_until DESC LIMIT ${limit}`,
  )
  return found.map(([id]) => id)
}

/**
 * What an enrollment's object keeps up to date; `issuer` is that of the newest certificate. Gives whether the enrollment
 * is on record here.
 */
export async function updateFleetRow(
  db: Queries,
  row: Pick<EnrollmentRow, 'enrollmentId' | 'seenAt' | 'connected' | 'instanceId' | 'agent' | 'liveUntil' | 'issuer'>,
): Promise<boolean> {
  const updated =
    await db.values(sql`UPDATE enrollment SET seen_at = ${row.seenAt}, connected = ${row.connected ? 1 : 0},
    instance_id = ${row.instanceId}, agent = ${row.agent}, live_until = ${row.liveUntil}, newest_issuer = ${row.issuer}
    WHERE id = ${row.enrollmentId} RETURNING id`)
  return updated.length > 0
}

/** The first reason stays. Gives whether one of them had not ended here. */
export async function updateEnded(
  db: Queries,
  ids: readonly string[],
  reason: string,
  at: EpochSeconds,
): Promise<boolean> {
  const updated = await db.values(sql`UPDATE enrollment SET ended_at = ${at}, ended_reason = ${reason}, connected = 0
    WHERE ${inList(enrollment.enrollmentId, ids)} AND ended_at IS NULL RETURNING id`)
  return updated.length > 0
}

/** As one parameter in JSON, since D1 takes at most 100 parameters in a statement. */
export const inList = (column: SQLWrapper, values: readonly string[]) =>
  sql`${column} IN (SELECT value FROM json_each(${JSON.stringify(values)}))`

/**
 * The number of live enrollments that hold a certificate by the issuer with this key identifier: the newest one, or one
 * that may start its lineage anew.
 */
export async function countUnderIssuer(db: Database, issuer: string, now: EpochSeconds): Promise<number> {
  const newest = sql`coalesce(${enrollment.newestIssuer}, ${enrollment.issuer}) = ${issuer}`
  const first = and(
    inArray(enrollment.mode, LINEAGE_STARTING_MODES),
    eq(enrollment.issuer, issuer),
    gte(enrollment.notAfter, now),
  )
  return db.$count(enrollment, and(mayLive(now), or(newest, first)))
}
