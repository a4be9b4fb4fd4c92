// Deletes enrollments that ended long ago, each with the bootstrap token that it used. D1 holds 10 GB. An index on their
// ends would be one more row written for each enrollment and each fleet row; instead the table is walked, a part at a time.

import { sql } from 'drizzle-orm'
import { type EpochSeconds, subtractSeconds } from '../../protocol/time.ts'
import { firstUuidv7At } from '../../protocol/uuid.ts'
import type { WorkerDatabase } from './d1.ts'
import { ROW_LAG } from './enrollments.ts'
import { compileStatement, runBatch } from './statements.ts'

/** How many rows one transaction looks at and how many transactions a call makes. D1 does nothing else meanwhile. */
export interface PartBounds {
  readonly rows: number
  readonly parts: number
}

/**
 * Goes on where the last call ended, and from the beginning once it has come to the end. Deletes enrollments that cannot
 * have been live at `before` or later; gives how many.
 */
export async function deleteDeadEnrollments(
  db: WorkerDatabase,
  before: EpochSeconds,
  bounds: PartBounds,
): Promise<number> {
  const [row] = await db.values<[string]>(sql`SELECT at FROM cursor WHERE name = ${CURSOR}`)
  let after = row?.[0] ?? ''
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
async function nextPart(db: WorkerDatabase, after: string, before: EpochSeconds, limit: number) {
  const part = sql`SELECT id FROM enrollment WHERE id > ${after} AND id < ${firstUuidv7At(before)} ORDER BY id LIMIT ${limit}`
  const [found] = await db.values<[string | null, number]>(sql`SELECT max(id), count(*) FROM (${part})`)
  const [last, seen] = found ?? [null, 0]
  return { last, seen }
}

const CURSOR = 'dead enrollments'

const DEAD = sql`id > ${sql.placeholder('after')} AND id <= ${sql.placeholder('last')}
  AND live_until < ${sql.placeholder('liveBefore')}`
// A token that an enrollment may still need is kept: to revoke it ends that enrollment.
const DELETE_TOKENS = compileStatement(
  sql`DELETE FROM token WHERE kind = 'bootstrap' AND id IN (SELECT token_id FROM enrollment WHERE ${DEAD})`,
)
const MOVE_CURSOR = compileStatement(sql`INSERT INTO cursor (name, at) VALUES (${CURSOR}, ${sql.placeholder('at')})
  ON CONFLICT (name) DO UPDATE SET at = excluded.at`)
const DELETE_ENROLLMENTS = compileStatement(sql`DELETE FROM enrollment WHERE ${DEAD} RETURNING id`)

/** Gives how many enrollments it deleted. */
async function deletePart(
  { d1 }: WorkerDatabase,
  part: { readonly after: string; readonly last: string },
  before: EpochSeconds,
  at: string,
): Promise<number> {
  const values = { ...part, liveBefore: subtractSeconds(before, ROW_LAG) }
  const statements = [DELETE_TOKENS(d1, values), MOVE_CURSOR(d1, { at }), DELETE_ENROLLMENTS(d1, values)]
  return (await runBatch(d1, statements)).length
}
