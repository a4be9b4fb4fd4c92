// Reserves enrollments. Each way in is one transaction of D1: it checks bans and reserved runner IDs, consumes the token,
// and records the enrollment with its first certificate, or finds the one that the same key made in the last 10 minutes.

import { type SQL, sql } from 'drizzle-orm'
import type { RecordedContent } from '../../protocol/leaf.ts'
import { SAME_KEY_RETRY } from '../../protocol/limits.ts'
import type { ProvenMode } from '../../protocol/modes.ts'
import { type EpochSeconds, subtractSeconds } from '../../protocol/time.ts'
import type { TokenKind } from '../../protocol/tokens.ts'
import type { CompiledTrust } from '../../trust/compiled.ts'
import {
  type Admission,
  type AdmissionRow,
  admissionOf,
  isBanned,
  type PresentedToken,
  reservedRunnerId,
  TOKEN_COLUMNS,
  TOKEN_NAMES,
  type TokenRow,
  tokenOf,
} from './admissions.ts'
import { type EnrollmentRow, ROW_LAG } from './enrollments.ts'
import { compileStatement, runBatch, type Statement } from './statements.ts'

/** A new enrollment with its first certificate, but for what only the proven identity says. */
export interface Application extends RecordedContent {
  readonly enrollmentId: string
  readonly instanceId: string | null
  readonly enrolledAt: EpochSeconds
}

/** The identity that evidence of a platform proves, and what the trust file makes of it. */
export interface PlatformIdentity {
  readonly mode: ProvenMode
  readonly source: string
  readonly tenant: string
  /** ARN or `sub`. */
  readonly identity: string
  readonly runnerId: string | null
  /** JSON. */
  readonly claims: string
  /** Kind and value of every ban that would name it, as JSON. */
  readonly bannedBy: string
}

/** An enrollment on record. */
export type Enrollment = Pick<
  EnrollmentRow,
  | 'enrollmentId'
  | 'enrolledAt'
  | 'runnerId'
  | 'publicKeyHash'
  | 'serial'
  | 'trustDomain'
  | 'notBefore'
  | 'notAfter'
  | 'issuer'
  | 'signature'
  | 'begunAt'
  | 'endedAt'
> & {
  /** When the last certificate of another enrollment with the runner ID ends, by its row; null where none may be live. */
  readonly sharedUntil: EpochSeconds | null
}

export interface Reservation extends Admission {
  /** Null: nothing was recorded. */
  readonly enrollment: Enrollment | null
}

export interface TokenReservation extends Reservation {
  readonly token: PresentedToken
}

export interface Reservations {
  /** Null: no such token. */
  readonly byToken: (kind: TokenKind, hash: string, application: Application) => Promise<TokenReservation | null>
  readonly byEvidence: (identity: PlatformIdentity, application: Application) => Promise<Reservation>
}

export function makeReservations(db: D1Database, trust: CompiledTrust): Reservations {
  const reservedId = reservedRunnerId(trust)
  const evidence = byEvidence(reservedId)
  const token = { bootstrap: byBootstrapToken(reservedId, trust), runner: byRunnerToken(reservedId, trust) }

  /** The row of the last statement. */
  async function run<Row extends ReservationRow>(
    statements: readonly Statement[],
    application: Application,
    values: Readonly<Record<string, string | null>>,
  ): Promise<Row | null> {
    const now = application.enrolledAt
    const bound = {
      ...application,
      ...values,
      now,
      retrySince: subtractSeconds(now, SAME_KEY_RETRY),
      liveSince: subtractSeconds(now, ROW_LAG),
    }
    const [row] = await runBatch<Row>(
      db,
      statements.map((statement) => statement(db, bound)),
    )
    return row ?? null
  }

  return {
    byToken: async (kind, hash, application) => {
      const row = await run<ReservationRow & TokenRow>(token[kind], application, { hash })
      return row && { ...reservationOf(row), token: tokenOf(row) }
    },
    byEvidence: async (identity, application) => {
      const row = await run(evidence, application, { ...identity })
      if (row === null) throw new Error('the statement gave no row')
      return reservationOf(row)
    },
  }
}

const p = sql.placeholder

/** The columns that say who enrolls: values, or columns of the token. */
type IdentityColumns = Readonly<
  Record<'mode' | 'source' | 'tenant' | 'identity' | 'runnerId' | 'tokenId' | 'claims', SQL>
>

const insertEnrollment = ({ mode, source, tenant, identity, runnerId, tokenId, claims }: IdentityColumns): SQL =>
  sql`INSERT INTO enrollment (id, mode, source, tenant, identity, runner_id, token_id, claims, instance_id, enrolled_at,
      public_key_hash, serial, trust_domain, not_before, not_after, issuer, seen_at, live_until)
    SELECT ${p('enrollmentId')}, ${mode}, ${source}, ${tenant}, ${identity}, ${runnerId}, ${tokenId}, ${claims},
      ${p('instanceId')}, ${p('enrolledAt')}, ${p('publicKeyHash')}, ${p('serial')}, ${p('trustDomain')},
      ${p('notBefore')}, ${p('notAfter')}, ${p('issuer')}, ${p('enrolledAt')}, ${p('notAfter')}`

/** The newest enrollment that the same key and identity made in the last 10 minutes and that has not ended. */
const earlier = (identity: SQL): SQL =>
  sql`SELECT id FROM enrollment WHERE public_key_hash = ${p('publicKeyHash')} AND enrolled_at >= ${p('retrySince')}
    AND ended_at IS NULL AND ${identity} ORDER BY enrolled_at DESC LIMIT 1`

/** What each reservation answers with. `names`: of the caller, for bans. `reserved`: the enrollment, or a row of nulls. */
const reservationColumns = (names: SQL, reservedId: SQL): SQL =>
  sql`${isBanned(names)} OR EXISTS (SELECT 1 FROM ban WHERE kind = 'enrollment' AND value = reserved.id) AS banned,
    ${reservedId} AS reservedRunnerId, reserved.id AS enrollmentId, reserved.enrolled_at AS enrolledAt,
    reserved.runner_id AS runnerId, reserved.public_key_hash AS publicKeyHash, reserved.serial AS serial,
    reserved.trust_domain AS trustDomain, reserved.not_before AS notBefore, reserved.not_after AS notAfter,
    reserved.issuer AS issuer, reserved.signature AS signature, reserved.begun_at AS begunAt,
    reserved.ended_at AS endedAt,
    (SELECT max(live_until) FROM enrollment AS other WHERE other.runner_id = reserved.runner_id
      AND other.id <> reserved.id AND other.ended_at IS NULL AND other.live_until >= ${p('liveSince')}) AS sharedUntil`

function byEvidence(reservedId: SQL): Statement[] {
  const identity = {
    mode: sql`${p('mode')}`,
    source: sql`${p('source')}`,
    tenant: sql`${p('tenant')}`,
    identity: sql`${p('identity')}`,
    runnerId: sql`${p('runnerId')}`,
    tokenId: sql`NULL`,
    claims: sql`${p('claims')}`,
  }
  const names = sql`${p('bannedBy')}`
  const mine = earlier(sql`mode = ${p('mode')} AND source = ${p('source')} AND tenant = ${p('tenant')}
    AND identity = ${p('identity')} AND runner_id IS ${p('runnerId')}`)
  return [
    sql`${insertEnrollment(identity)} WHERE NOT ${isBanned(names)} AND ${reservedId} IS NULL AND NOT EXISTS (${mine})`,
    sql`SELECT ${reservationColumns(names, reservedId)}
      FROM (SELECT 1) LEFT JOIN enrollment AS reserved ON reserved.id = (${mine})`,
  ].map(compileStatement)
}

const OF_TOKEN = {
  source: sql`''`,
  tenant: sql`token.tenant`,
  identity: sql`token.id`,
  runnerId: sql`token.runner_id`,
  tokenId: sql`token.id`,
}

/** Whether the token in the row may be used, by all but its kind, its use and its expiry. */
const isUsable = (reservedId: SQL, { tenants }: CompiledTrust): SQL =>
  sql`hash = ${p('hash')} AND revoked_at IS NULL AND tenant IN (SELECT value FROM json_each(${JSON.stringify(tenants)}))
    AND NOT ${isBanned(TOKEN_NAMES)} AND ${reservedId} IS NULL`

const selectToken = (reservedId: SQL, enrollmentId: SQL): SQL =>
  sql`SELECT ${TOKEN_COLUMNS}, ${reservationColumns(TOKEN_NAMES, reservedId)}
    FROM token LEFT JOIN enrollment AS reserved ON reserved.id = ${enrollmentId} WHERE token.hash = ${p('hash')}`

/** One statement tests kind, unused, unrevoked and unexpired together, so of many callers one consumes the token. */
function byBootstrapToken(reservedId: SQL, trust: CompiledTrust): Statement[] {
  const identity = {
    ...OF_TOKEN,
    mode: sql`'bootstrap-token'`,
    claims: sql`json_object('mode', 'bootstrap-token', 'tokenId', token.id, 'tenant', token.tenant)`,
  }
  return [
    sql`UPDATE token SET used_at = ${p('enrolledAt')}, used_by = ${p('publicKeyHash')},
        enrollment_id = ${p('enrollmentId')}
      WHERE ${isUsable(reservedId, trust)} AND kind = 'bootstrap' AND used_at IS NULL AND expires_at > ${p('now')}`,
    // The id is new, so it is there only where the update wrote it.
    sql`${insertEnrollment(identity)} FROM token WHERE hash = ${p('hash')} AND enrollment_id = ${p('enrollmentId')}`,
    selectToken(reservedId, sql`token.enrollment_id`),
  ].map(compileStatement)
}

function byRunnerToken(reservedId: SQL, trust: CompiledTrust): Statement[] {
  const identity = {
    ...OF_TOKEN,
    mode: sql`'runner-token'`,
    claims: sql`json_object('mode', 'runner-token', 'tokenId', token.id, 'tenant', token.tenant,
      'runnerId', token.runner_id)`,
  }
  const mine = earlier(sql`mode = 'runner-token' AND identity = token.id`)
  return [
    sql`${insertEnrollment(identity)} FROM token WHERE ${isUsable(reservedId, trust)} AND kind = 'runner'
      AND runner_id IS NOT NULL AND (expires_at IS NULL OR expires_at > ${p('now')}) AND NOT EXISTS (${mine})`,
    selectToken(reservedId, sql`(${mine})`),
  ].map(compileStatement)
}

/** As the statements name the columns. Those of the enrollment are null where there is none. */
interface ReservationRow extends AdmissionRow, Omit<Enrollment, 'enrollmentId'> {
  readonly enrollmentId: string | null
}

function reservationOf(row: ReservationRow): Reservation {
  const { enrollmentId, enrolledAt, runnerId, publicKeyHash, serial, trustDomain, notBefore, notAfter } = row
  const { issuer, signature, begunAt, endedAt, sharedUntil } = row
  const certificate = { publicKeyHash, serial, trustDomain, notBefore, notAfter, issuer, signature }
  const enrollment = enrollmentId && {
    enrollmentId,
    enrolledAt,
    runnerId,
    ...certificate,
    begunAt,
    endedAt,
    sharedUntil,
  }
  return { ...admissionOf(row), enrollment: enrollment || null }
}
