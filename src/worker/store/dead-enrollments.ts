// Deletes enrollments that ended long ago, each with the bootstrap token that it used. D1 holds 10 GB. An index on their
// ends would be one more row written for each enrollment and each fleet row; instead the table is walked, a part at a time.

import { and, eq, gt, inArray, lt, lte, sql } from 'drizzle-orm'
import { sqliteTable, text } from 'drizzle-orm/sqlite-core'
import { type EpochSeconds, subtractSeconds } from '../../protocol/time.ts'
import { firstUuidv7At } from '../../protocol/uuid.ts'
import type { BatchDatabase } from './db.ts'
import { enrollment, ROW_LAG } from './enrollments.ts'
import { token } from './tokens.ts'

const cursor = sqliteTable('cursor', { name: text().primaryKey(), at: text().notNull() })
const DEAD_ENROLLMENTS = 'dead enrollments'

/** How many rows one transaction looks at and how many transactions a call makes. D1 does nothing else meanwhile. */
export interface Bounds {
  readonly rows: number
  readonly parts: number
}

/**
 * Goes on where the last call ended, and from the beginning once it has come to the end. Deletes enrollments that cannot
 * have been live at `before` or later; gives how many.
 */
export async function deleteDeadEnrollments(db: BatchDatabase, before: EpochSeconds, bounds: Bounds): Promise<number> {
  const [row] = await db.select({ at: cursor.at }).from(cursor).where(eq(cursor.name, DEAD_ENROLLMENTS))
  let after = row?.at ?? ''
  let deleted = 0
  for (let part = 0; part < bounds.parts; part++) {
    const { last, seen } = await nextPart(db, after, before, bounds.rows)
    const at = last === null || seen < bounds.rows ? '' : last
    // With nothing left to look at, the part is empty, and the walk begins again.
    deleted += await deletePart(db, { after, last: last ?? after }, before, at)
    if (at === '') break
    after = at
  }
  return deleted
}

/** Enrollments younger than `before` were live then, and are not looked at. */
async function nextPart(db: BatchDatabase, after: string, before: EpochSeconds, limit: number) {
  const part = db
    .select({ id: enrollment.enrollmentId })
    .from(enrollment)
    .where(and(gt(enrollment.enrollmentId, after), lt(enrollment.enrollmentId, firstUuidv7At(before))))
    .orderBy(enrollment.enrollmentId)
    .limit(limit)
    .as('part')
  const [found] = await db.select({ last: sql<string | null>`max(${part.id})`, seen: sql<number>`count(*)` }).from(part)
  return found ?? { last: null, seen: 0 }
}

async function deletePart(
  db: BatchDatabase,
  { after, last }: { readonly after: string; readonly last: string },
  before: EpochSeconds,
  at: string,
): Promise<number> {
  const dead = and(
    gt(enrollment.enrollmentId, after),
    lte(enrollment.enrollmentId, last),
    lt(enrollment.liveUntil, subtractSeconds(before, ROW_LAG)),
  )
  // A token that an enrollment may still need is kept: to revoke it ends that enrollment.
  const used = db.select({ id: enrollment.tokenId }).from(enrollment).where(dead)
  const [, result] = await db.batch([
    db.delete(token).where(and(eq(token.kind, 'bootstrap'), inArray(token.id, used))),
    db.delete(enrollment).where(dead).returning({ id: enrollment.enrollmentId }),
    db.insert(cursor).values({ name: DEAD_ENROLLMENTS, at }).onConflictDoUpdate({ target: cursor.name, set: { at } }),
  ])
  return result.length
}
