// Table `token`: minted tokens by their hash, with their use and revocation.

import { and, desc, eq, isNull, type Placeholder, sql } from 'drizzle-orm'
import { integer, sqliteTable, text } from 'drizzle-orm/sqlite-core'
import type { EpochSeconds } from '../../protocol/time.ts'
import type { TokenKind } from '../../protocol/tokens.ts'
import type { Database, Queries } from './db.ts'

export const token = sqliteTable('token', {
  hash: text().primaryKey(),
  id: text().notNull(),
  kind: text().$type<TokenKind>().notNull(),
  tenant: text().notNull(),
  runnerId: text('runner_id'),
  note: text(),
  createdAt: integer('created_at').$type<EpochSeconds>().notNull(),
  expiresAt: integer('expires_at').$type<EpochSeconds>(),
  revokedAt: integer('revoked_at').$type<EpochSeconds>(),
  usedAt: integer('used_at').$type<EpochSeconds>(),
  usedBy: text('used_by'),
  enrollmentId: text('enrollment_id'),
})

export type TokenRow = typeof token.$inferSelect

export const insertToken = async (db: Database, row: typeof token.$inferInsert): Promise<void> => {
  await db.insert(token).values(row)
}

export async function findTokenById(db: Database, id: string): Promise<TokenRow | null> {
  return (await db.select().from(token).where(eq(token.id, id)).limit(1))[0] ?? null
}

/** Newest first. */
export const listTokens = (db: Database, limit: number): Promise<TokenRow[]> =>
  db.select().from(token).orderBy(desc(token.id)).limit(limit)

/** The revoked token, or null where there is none of that id. A second revocation keeps the first time. */
export async function revokeToken(db: Database, id: string, now: EpochSeconds): Promise<TokenRow | null> {
  await db
    .update(token)
    .set({ revokedAt: now })
    .where(and(eq(token.id, id), isNull(token.revokedAt)))
  return findTokenById(db, id)
}

/** Whether a row is a live token with a `/` in its runner ID, which is reserved for the nodes of clusters. */
export const isReserved = (now: EpochSeconds | Placeholder) => sql`kind = 'runner' AND revoked_at IS NULL
  AND instr(runner_id, '/') > 0 AND (expires_at IS NULL OR expires_at > ${now})`

/** The runner ID of such a token; null where there is none. */
export async function liveRunnerIdWithSlash(db: Queries, now: EpochSeconds): Promise<string | null> {
  const [row] = await db.values<[string]>(sql`SELECT runner_id FROM token WHERE ${isReserved(now)} LIMIT 1`)
  return row?.[0] ?? null
}
