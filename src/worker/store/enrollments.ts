// Table `enrollment`: each enrollment with its first certificate, recorded before it is signed, and its fleet row.

import { and, desc, eq, gt, gte, inArray, isNull, ne, or, type SQLWrapper, sql } from 'drizzle-orm'
import { integer, sqliteTable, text } from 'drizzle-orm/sqlite-core'
import type { Leaf } from '../../protocol/leaf.ts'
import { CLOCK_LEEWAY, RENEWAL_GRACE, SAME_KEY_RETRY } from '../../protocol/limits.ts'
import { LINEAGE_STARTING_MODES, type ProvenMode } from '../../protocol/modes.ts'
import { type EpochSeconds, hours, seconds, subtractSeconds } from '../../protocol/time.ts'
import { type BatchDatabase, type Database, rowWhere } from './db.ts'
import { type TokenRow, token } from './tokens.ts'

export const enrollment = sqliteTable('enrollment', {
  enrollmentId: text('id').primaryKey(),
  mode: text().$type<ProvenMode>().notNull(),
  source: text().notNull(),
  tenant: text().notNull(),
  identity: text().notNull(),
  runnerId: text('runner_id'),
  tokenId: text('token_id'),
  instanceId: text('instance_id'),
  enrolledAt: integer('enrolled_at').$type<EpochSeconds>().notNull(),
  publicKeyHash: text('public_key_hash').notNull(),
  serial: text().notNull(),
  spiffeId: text('spiffe_id').notNull(),
  notBefore: integer('not_before').$type<EpochSeconds>().notNull(),
  notAfter: integer('not_after').$type<EpochSeconds>().notNull(),
  issuer: text().notNull(),
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

/** An enrollment with its first certificate, to be reserved. */
export interface Proposal extends Leaf {
  /** ARN, `sub` or token id. */
  readonly identity: string
  readonly runnerId: string | null
  readonly tokenId: string | null
  readonly instanceId: string | null
  readonly enrolledAt: EpochSeconds
}

/** The row of a proposal; its fleet columns as enrollment knows them. */
const rowOf = (proposal: Proposal): EnrollmentRow => ({
  ...proposal,
  seenAt: proposal.enrolledAt,
  liveUntil: proposal.notAfter,
  connected: false,
  endedAt: null,
  endedReason: null,
  agent: null,
  newestIssuer: null,
  cutAt: null,
  drainAt: null,
})

/** A bootstrap token after the reserve step, and the enrollment that it was used for, now or before. */
export interface TokenReservation {
  readonly token: TokenRow
  readonly enrollment: EnrollmentRow | null
}

/**
 * Consumes a bootstrap token for the proposal, in one transaction: one statement tests kind, unused, unrevoked and
 * unexpired together, and the enrollment is recorded only where it changed the row. Null: no such token.
 */
export async function reserveWithBootstrapToken(
  db: BatchDatabase,
  tokenId: string,
  proposal: Proposal,
): Promise<TokenReservation | null> {
  const usable = and(
    eq(token.id, tokenId),
    eq(token.kind, 'bootstrap'),
    isNull(token.usedAt),
    isNull(token.revokedAt),
    gt(token.expiresAt, proposal.enrolledAt),
  )
  const [, , [consumed], [made]] = await db.batch([
    db
      .update(token)
      .set({ usedAt: proposal.enrolledAt, usedBy: proposal.publicKeyHash, enrollmentId: proposal.enrollmentId })
      .where(usable),
    db.insert(enrollment).select(rowWhere(enrollment, rowOf(proposal), sql`changes() > 0`)),
    db.select().from(token).where(eq(token.id, tokenId)),
    db
      .select()
      .from(enrollment)
      .where(sql`${enrollment.enrollmentId} = (SELECT enrollment_id FROM token WHERE id = ${tokenId})`),
  ])
  return consumed === undefined ? null : { token: consumed, enrollment: made ?? null }
}

/**
 * Records the proposal, or gives the enrollment that the same identity made with the same key in the last 10 minutes.
 * Null where the evidence is a runner token that is revoked or expired by now.
 */
export async function reserveWithEvidence(db: BatchDatabase, proposal: Proposal): Promise<EnrollmentRow | null> {
  const earlier = and(
    eq(enrollment.publicKeyHash, proposal.publicKeyHash),
    eq(enrollment.mode, proposal.mode),
    eq(enrollment.source, proposal.source),
    eq(enrollment.tenant, proposal.tenant),
    eq(enrollment.identity, proposal.identity),
    sql`${enrollment.runnerId} IS ${proposal.runnerId}`,
    gte(enrollment.enrolledAt, subtractSeconds(proposal.enrolledAt, SAME_KEY_RETRY)),
    isNull(enrollment.endedAt),
  )
  const tokenLives =
    proposal.tokenId === null
      ? sql`1`
      : sql`EXISTS (SELECT 1 FROM token WHERE id = ${proposal.tokenId} AND kind = 'runner' AND revoked_at IS NULL
          AND (expires_at IS NULL OR expires_at > ${proposal.enrolledAt}))`
  const [, rows] = await db.batch([
    db
      .insert(enrollment)
      .select(
        rowWhere(
          enrollment,
          rowOf(proposal),
          sql`${tokenLives} AND NOT EXISTS (SELECT 1 FROM enrollment WHERE ${earlier})`,
        ),
      ),
    db.select().from(enrollment).where(and(earlier, tokenLives)).orderBy(desc(enrollment.enrolledAt)).limit(1),
  ])
  return rows[0] ?? null
}

export async function findEnrollment(db: Database, id: string): Promise<EnrollmentRow | null> {
  return (await db.select().from(enrollment).where(eq(enrollment.enrollmentId, id)).limit(1))[0] ?? null
}

/** Records a certificate of `muster ca issue`. */
export const insertProvisioned = async (db: Database, proposal: Proposal): Promise<void> => {
  await db.insert(enrollment).values(rowOf(proposal))
}

/**
 * Whether an enrollment may still be live at `now`. Its newest certificate ends at most an hour later than the row says
 * (fleet/fleet-row.ts), and may be renewed for a while after that.
 */
export const mayLive = (now: EpochSeconds) =>
  and(isNull(enrollment.endedAt), gte(enrollment.liveUntil, subtractSeconds(now, ROW_LAG)))

const ROW_LAG = seconds(hours(1) + RENEWAL_GRACE + CLOCK_LEEWAY)

/** The other enrollments of a runner ID. */
export interface Sharers {
  /** Whether one of them has a live certificate by its row. */
  readonly live: boolean
  /** Those that may have renewed since their row was written; only their objects know. At most `limit`. */
  readonly maybe: readonly string[]
}

export async function sharersOf(
  db: Database,
  { runnerId, enrollmentId }: { readonly runnerId: string; readonly enrollmentId: string },
  now: EpochSeconds,
  limit: number,
): Promise<Sharers> {
  // Newest first, so that `limit` leaves out only the oldest.
  const found = await db
    .select({ id: enrollment.enrollmentId, liveUntil: enrollment.liveUntil })
    .from(enrollment)
    .where(and(eq(enrollment.runnerId, runnerId), ne(enrollment.enrollmentId, enrollmentId), mayLive(now)))
    .orderBy(desc(enrollment.liveUntil))
    .limit(limit)
  const [newest] = found
  const live = newest !== undefined && newest.liveUntil >= now
  return { live, maybe: live ? [] : found.map(({ id }) => id) }
}

/** What an enrollment's object keeps up to date; `issuer` is that of the newest certificate. */
export async function updateFleetRow(
  db: Database,
  row: Pick<EnrollmentRow, 'enrollmentId' | 'seenAt' | 'connected' | 'instanceId' | 'agent' | 'liveUntil' | 'issuer'>,
): Promise<void> {
  const { enrollmentId, issuer, ...changed } = row
  await db
    .update(enrollment)
    .set({ ...changed, newestIssuer: issuer })
    .where(eq(enrollment.enrollmentId, enrollmentId))
}

/** The first reason stays. */
export async function updateEnded(
  db: Database,
  ids: readonly string[],
  reason: string,
  at: EpochSeconds,
): Promise<void> {
  await db
    .update(enrollment)
    .set({ endedAt: at, endedReason: reason, connected: false })
    .where(and(inList(enrollment.enrollmentId, ids), isNull(enrollment.endedAt)))
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
