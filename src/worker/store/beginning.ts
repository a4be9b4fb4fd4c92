// What the object of an enrollment asks D1 when it begins: at the first renewal or connection, once.

import { sql } from 'drizzle-orm'
import type { EpochSeconds } from '../../protocol/time.ts'
import type { EnrollmentRow } from './enrollments.ts'
import { compileStatement, runBatch } from './statements.ts'

/** An enrollment with its first certificate, as it was recorded. */
export interface RecordedEnrollment
  extends Pick<EnrollmentRow, 'enrollmentId' | 'mode' | 'source' | 'tenant' | 'identity' | 'runnerId' | 'claims'>,
    Pick<EnrollmentRow, 'instanceId' | 'enrolledAt' | 'publicKeyHash' | 'serial' | 'trustDomain'>,
    Pick<EnrollmentRow, 'notBefore' | 'notAfter' | 'issuer'> {
  readonly ended: boolean
  /** Whether its token was revoked. */
  readonly revoked: boolean
}

const p = sql.placeholder
const REVOKED = sql`EXISTS (SELECT 1 FROM token WHERE token.id = enrollment.token_id AND token.revoked_at IS NOT NULL)`

const STATEMENTS = [
  sql`UPDATE enrollment SET begun_at = ${p('now')}
    WHERE id = ${p('id')} AND begun_at IS NULL AND ended_at IS NULL AND NOT ${REVOKED}`,
  sql`SELECT id AS enrollmentId, mode, source, tenant, identity, runner_id AS runnerId, claims,
      instance_id AS instanceId, enrolled_at AS enrolledAt, public_key_hash AS publicKeyHash, serial,
      trust_domain AS trustDomain, not_before AS notBefore, not_after AS notAfter, issuer,
      ended_at IS NOT NULL AS ended, ${REVOKED} AS revoked
    FROM enrollment WHERE id = ${p('id')}`,
].map(compileStatement)

type Row = Omit<RecordedEnrollment, 'claims' | 'ended' | 'revoked'> & {
  readonly claims: string
  readonly ended: 0 | 1
  readonly revoked: 0 | 1
}

/**
 * Marks an enrollment as begun, so that a repeated enrollment goes to its object from now on. One that has ended, or
 * whose token was revoked, does not begin. Null: none on record.
 */
export async function beginEnrollment(
  db: D1Database,
  id: string,
  now: EpochSeconds,
): Promise<RecordedEnrollment | null> {
  const [row] = await runBatch<Row>(
    db,
    STATEMENTS.map((statement) => statement(db, { id, now })),
  )
  if (row === undefined) return null
  return { ...row, claims: JSON.parse(row.claims), ended: row.ended === 1, revoked: row.revoked === 1 }
}
