// What D1 says of a caller who has proven itself: its bans, its token, and reserved runner IDs. Read anew each time, in the
// transaction that records an enrollment (reservations.ts), or by itself for a caller who gets none.

import { type SQL, sql } from 'drizzle-orm'
import type { EpochSeconds } from '../../protocol/time.ts'
import type { TokenKind } from '../../protocol/tokens.ts'
import type { CompiledTrust } from '../../trust/compiled.ts'
import { compileStatement, runBatch } from './statements.ts'
import { isReserved } from './tokens.ts'

export interface Admission {
  /** Whether a ban names the caller. */
  readonly banned: boolean
  /** A live minted runner ID that is reserved for the nodes of clusters; null where there is none. */
  readonly reservedRunnerId: string | null
}

/** A minted token, as it is at the end of the transaction. */
export interface PresentedToken {
  readonly id: string
  readonly kind: TokenKind
  readonly tenant: string
  readonly runnerId: string | null
  readonly expiresAt: EpochSeconds | null
  readonly revokedAt: EpochSeconds | null
  readonly usedAt: EpochSeconds | null
  /** SHA-256 of the public key that used it, in hexadecimal. */
  readonly usedBy: string | null
}

export interface Admissions {
  /** `hash`: of the token. Null: no such token. */
  readonly ofToken: (
    hash: string,
    now: EpochSeconds,
  ) => Promise<(Admission & { readonly token: PresentedToken }) | null>
  /** `bannedBy`: kind and value of every ban that would name the caller, as JSON. */
  readonly ofEvidence: (bannedBy: string, now: EpochSeconds) => Promise<Admission>
}

/** `names`: a JSON list of pairs of kind and value. */
export const isBanned = (names: SQL): SQL => sql`EXISTS (SELECT 1 FROM json_each(${names}) AS name
  JOIN ban ON ban.kind = name.value ->> 0 AND ban.value = name.value ->> 1)`

/** The names of the token in the row. */
export const TOKEN_NAMES: SQL = sql`json_array(json_array('tenant', token.tenant), json_array('token', token.id),
  json_array('identity', token.id), json_array('runner-id', token.runner_id))`

/** Without a cluster no runner ID is reserved. */
export const reservedRunnerId = ({ clusters }: CompiledTrust): SQL =>
  clusters.length > 0
    ? sql`(SELECT runner_id FROM token WHERE ${isReserved(sql.placeholder('now'))} LIMIT 1)`
    : sql`NULL`

export const TOKEN_COLUMNS: SQL = sql`token.id AS tokenId, token.kind AS tokenKind, token.tenant AS tokenTenant,
  token.runner_id AS tokenRunnerId, token.expires_at AS tokenExpiresAt, token.revoked_at AS tokenRevokedAt,
  token.used_at AS tokenUsedAt, token.used_by AS tokenUsedBy`

export interface AdmissionRow {
  readonly banned: 0 | 1
  readonly reservedRunnerId: string | null
}

export interface TokenRow {
  readonly tokenId: string
  readonly tokenKind: TokenKind
  readonly tokenTenant: string
  readonly tokenRunnerId: string | null
  readonly tokenExpiresAt: EpochSeconds | null
  readonly tokenRevokedAt: EpochSeconds | null
  readonly tokenUsedAt: EpochSeconds | null
  readonly tokenUsedBy: string | null
}

export const admissionOf = ({ banned, reservedRunnerId }: AdmissionRow): Admission => ({
  banned: banned === 1,
  reservedRunnerId,
})

export const tokenOf = (row: TokenRow): PresentedToken => ({
  id: row.tokenId,
  kind: row.tokenKind,
  tenant: row.tokenTenant,
  runnerId: row.tokenRunnerId,
  expiresAt: row.tokenExpiresAt,
  revokedAt: row.tokenRevokedAt,
  usedAt: row.tokenUsedAt,
  usedBy: row.tokenUsedBy,
})

export function makeAdmissions(db: D1Database, trust: CompiledTrust): Admissions {
  const reservedId = sql`${reservedRunnerId(trust)} AS reservedRunnerId`
  const ofToken = compileStatement(
    sql`SELECT ${TOKEN_COLUMNS}, ${isBanned(TOKEN_NAMES)} AS banned, ${reservedId} FROM token
      WHERE hash = ${sql.placeholder('hash')}`,
  )
  const ofEvidence = compileStatement(
    sql`SELECT ${isBanned(sql`${sql.placeholder('bannedBy')}`)} AS banned, ${reservedId}`,
  )
  return {
    ofToken: async (hash, now) => {
      const [row] = await runBatch<AdmissionRow & TokenRow>(db, [ofToken(db, { hash, now })])
      return row === undefined ? null : { ...admissionOf(row), token: tokenOf(row) }
    },
    ofEvidence: async (bannedBy, now) => {
      const [row] = await runBatch<AdmissionRow>(db, [ofEvidence(db, { bannedBy, now })])
      if (row === undefined) throw new Error('the statement gave no row')
      return admissionOf(row)
    },
  }
}
