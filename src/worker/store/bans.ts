// Table `ban`: the bans of operators, and the live enrollments that have yet to be checked against them.

import { and, asc, eq, gt, isNull, lt, or, type SQL, sql } from 'drizzle-orm'
import { integer, primaryKey, sqliteTable, text } from 'drizzle-orm/sqlite-core'
import { addSeconds, type EpochSeconds, hours, minutes, subtractSeconds } from '../../protocol/time.ts'
import { formatIdentity, parseIdentity } from '../../trust/banned-identity.ts'
import type { Ban, BanKind, BanList } from '../../trust/bans.ts'
import type { Database, Queries } from './db.ts'
import { enrollment, inList, mayLive } from './enrollments.ts'
import { token } from './tokens.ts'

export const ban = sqliteTable(
  'ban',
  {
    kind: text().$type<BanKind>().notNull(),
    value: text().notNull(),
    note: text(),
    createdAt: integer('created_at').$type<EpochSeconds>().notNull(),
    sweptAt: integer('swept_at').$type<EpochSeconds>(),
  },
  (table) => [primaryKey({ columns: [table.kind, table.value] })],
)

export type BanRow = typeof ban.$inferSelect

/** A repeated ban counts as new: its enrollments are checked again. */
export async function insertBan(db: Database, row: Omit<BanRow, 'sweptAt'>): Promise<void> {
  const fresh = { note: row.note, createdAt: row.createdAt, sweptAt: null }
  await db
    .insert(ban)
    .values({ ...row, sweptAt: null })
    .onConflictDoUpdate({ target: [ban.kind, ban.value], set: fresh })
}

type BanCopy = Ban & Pick<BanRow, 'note'>

/** Every ban, to be copied to another shard. */
export async function bansToCopy(db: Queries): Promise<BanCopy[]> {
  const rows = await db.values<[BanKind, string, string | null]>(sql`SELECT kind, value, note FROM ban`)
  return rows.map(([kind, value, note]) => ({ kind, value, note }))
}

/** How many bans one statement may hold: a value of D1 has 2 MB at most. */
const COPIED_AT_ONCE = 1000

/** Adds bans of another shard, as new ones; what they name is checked. Of very many, the first. */
export async function insertCopies(db: Queries, bans: readonly BanCopy[], now: EpochSeconds): Promise<void> {
  const copies = bans.slice(0, COPIED_AT_ONCE).map(({ kind, value, note }) => [kind, value, note])
  await db.values(sql`INSERT INTO ban (kind, value, note, created_at)
    SELECT value ->> 0, value ->> 1, value ->> 2, ${now} FROM json_each(${JSON.stringify(copies)}) WHERE true
    ON CONFLICT DO NOTHING`)
}

/** Whether there was one. */
export async function deleteBan(db: Database, { kind, value }: Ban): Promise<boolean> {
  const gone = await db
    .delete(ban)
    .where(and(eq(ban.kind, kind), eq(ban.value, value)))
    .returning({ kind: ban.kind })
  return gone.length > 0
}

/** The number of live enrollments that it names now. */
export const countNamed = (db: Database, target: Ban, now: EpochSeconds): Promise<number> =>
  db.$count(enrollment, and(isNamedBy(target), mayLive(now)))

/** Newest last. */
export const listBans = (db: Database): Promise<BanRow[]> => db.select().from(ban).orderBy(asc(ban.createdAt))

/** A week is enough, since a revoked token ends its enrollments for good within minutes. */
const REVOCATIONS_LISTED = hours(7 * 24)

/** In one statement. */
export async function loadBanList(db: Queries, now: EpochSeconds): Promise<BanList> {
  const rows = await db.values<[BanKind | null, string]>(
    sql`SELECT kind, value FROM ban UNION ALL SELECT NULL, id FROM token WHERE ${revokedLately(now)}`,
  )
  return {
    at: now,
    bans: rows.flatMap(([kind, value]) => (kind === null ? [] : [{ kind, value }])),
    revokedTokens: rows.flatMap(([kind, id]) => (kind === null ? [id] : [])),
  }
}

const revokedLately = (now: EpochSeconds) => gt(token.revokedAt, subtractSeconds(now, REVOCATIONS_LISTED))

/** Live enrollments whose token was revoked; at most `limit`. */
export async function revokedEnrollments(db: Queries, now: EpochSeconds, limit: number): Promise<string[]> {
  const byToken = async (isOf: SQL, most: number) => {
    const found = await db.values<[string]>(sql`SELECT ${enrollment.enrollmentId} FROM token JOIN enrollment ON ${isOf}
      WHERE ${and(revokedLately(now), mayLive(now))} LIMIT ${most}`)
    return found.map(([id]) => id)
  }
  const bootstrap = await byToken(sql`${enrollment.enrollmentId} = ${token.enrollmentId}`, limit)
  const isOfRunner = sql`${enrollment.runnerId} = ${token.runnerId} AND ${enrollment.tokenId} = ${token.id}`
  return [...bootstrap, ...(await byToken(isOfRunner, limit - bootstrap.length))]
}

const COLUMNS = {
  enrollment: enrollment.enrollmentId,
  'runner-id': enrollment.runnerId,
  identity: enrollment.identity,
  token: enrollment.tokenId,
  tenant: enrollment.tenant,
}

/** Whether a ban names the enrollment of a row, as `findBan` decides it. */
function isNamedBy({ kind, value }: Ban): SQL | undefined {
  const same = eq(COLUMNS[kind], value)
  const parsed = kind === 'identity' ? parseIdentity(value) : null
  if (parsed === null || !parsed.ok) return same
  const identity = parsed.value
  switch (identity.kind) {
    case 'account':
      return or(beginsWith(`arn:aws:iam::${identity.account}:`), beginsWith(`arn:aws:sts::${identity.account}:`))
    case 'role':
      return beginsWith(`${formatIdentity(identity)}/`)
    // There may be a path between account and name.
    case 'user':
      return and(
        beginsWith(formatIdentity({ ...identity, user: '' })),
        sql`substr(${enrollment.identity}, ${-identity.user.length - 1}) = ${`/${identity.user}`}`,
      )
    case 'session':
    case 'service-account':
      return same
  }
}

/** Not LIKE, which would take `_` for a pattern. */
const beginsWith = (prefix: string): SQL => sql`substr(${enrollment.identity}, 1, ${prefix.length}) = ${prefix}`

/** For so long after a ban an isolate may use an older list. Enrollments checked within that time are checked again. */
const LISTS_ARE_FRESH = minutes(1)

/** What of a ban a sweep needs. */
export type SweptBan = Pick<BanRow, 'kind' | 'value' | 'createdAt'>

/** Bans whose enrollments have not all been checked. */
export async function unsweptBans(db: Queries, limit: number): Promise<SweptBan[]> {
  const rows = await db.values<[BanKind, string, EpochSeconds]>(
    sql`SELECT kind, value, created_at FROM ban WHERE swept_at IS NULL ORDER BY created_at LIMIT ${limit}`,
  )
  return rows.map(([kind, value, createdAt]) => ({ kind, value, createdAt }))
}

/** Live enrollments that the ban names and that have yet to be checked, at most `limit`. Never checked ones come first. */
export async function enrollmentsToCut(
  db: Queries,
  row: SweptBan,
  now: EpochSeconds,
  limit: number,
): Promise<string[]> {
  const unchecked = or(isNull(enrollment.cutAt), lt(enrollment.cutAt, addSeconds(row.createdAt, LISTS_ARE_FRESH)))
  const found = await db.values<[string]>(sql`SELECT id FROM enrollment
    WHERE ${and(isNamedBy(row), mayLive(now), unchecked)} ORDER BY cut_at LIMIT ${limit}`)
  return found.map(([id]) => id)
}

/** Records that these enrollments were checked against a ban. */
export async function markCut(db: Queries, ids: readonly string[], now: EpochSeconds): Promise<void> {
  if (ids.length === 0) return
  await db.values(
    sql`UPDATE enrollment SET cut_at = ${now}, connected = 0 WHERE ${inList(enrollment.enrollmentId, ids)}`,
  )
}

/**
 * Records that no enrollment is left to check for these bans, unless some were checked while lists from before the ban
 * were in use.
 */
export async function markSwept(db: Queries, bans: readonly SweptBan[], now: EpochSeconds): Promise<void> {
  const swept = bans.filter(({ createdAt }) => now >= addSeconds(createdAt, LISTS_ARE_FRESH))
  if (swept.length === 0) return
  const keys = JSON.stringify(swept.map(({ kind, value, createdAt }) => [kind, value, createdAt]))
  await db.values(sql`UPDATE ban SET swept_at = ${now} WHERE (kind, value, created_at) IN
    (SELECT one.value ->> 0, one.value ->> 1, one.value ->> 2 FROM json_each(${keys}) AS one)`)
}

/** Marks live enrollments to be drained; their ids. */
export async function requestDrain(db: Database, target: Ban, now: EpochSeconds): Promise<string[]> {
  const asked = await db
    .update(enrollment)
    .set({ drainAt: now })
    .where(and(isNamedBy(target), mayLive(now)))
    .returning({ id: enrollment.enrollmentId })
  return asked.map(({ id }) => id)
}

export async function enrollmentsToDrain(
  db: Queries,
  limit: number,
): Promise<{ enrollmentId: string; tenant: string }[]> {
  const found = await db.values<[string, string]>(
    sql`SELECT id, tenant FROM enrollment WHERE drain_at IS NOT NULL LIMIT ${limit}`,
  )
  return found.map(([enrollmentId, tenant]) => ({ enrollmentId, tenant }))
}

export async function markDrained(db: Queries, ids: readonly string[]): Promise<void> {
  if (ids.length === 0) return
  await db.values(sql`UPDATE enrollment SET drain_at = NULL WHERE ${inList(enrollment.enrollmentId, ids)}`)
}
