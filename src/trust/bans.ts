// The ban list, and the one function that looks a caller up in it. Pure.

import { type EpochSeconds, epochSeconds } from '../protocol/time.ts'

/** What a ban can name: `muster ban --<kind>`. */
export const BAN_KINDS = ['enrollment', 'runner-id', 'identity', 'token', 'tenant'] as const
export type BanKind = (typeof BAN_KINDS)[number]

export interface Ban {
  readonly kind: BanKind
  readonly value: string
}

/** What operators have cut off. Plain JSON, since calls to objects pass it on. */
export interface BanList {
  /** When it was read. */
  readonly at: EpochSeconds
  readonly bans: readonly Ban[]
  /** Ids of tokens revoked in the last days; enrollments made with one are refused. */
  readonly revokedTokens: readonly string[]
}

export const NO_BANS: BanList = { at: epochSeconds(0), bans: [], revokedTokens: [] }

/** What a ban may name. Null: there is none, or not yet. */
export interface BanSubject {
  readonly enrollmentId: string | null
  readonly runnerId: string | null
  readonly identity: string
  readonly tokenId: string | null
  readonly tenant: string
}

/** The ban that names the subject, or null. Values are compared exactly. */
export function findBan({ bans }: BanList, subject: BanSubject): Ban | null {
  const named: Record<BanKind, string | null> = {
    enrollment: subject.enrollmentId,
    'runner-id': subject.runnerId,
    identity: subject.identity,
    token: subject.tokenId,
    tenant: subject.tenant,
  }
  return bans.find(({ kind, value }) => named[kind] === value) ?? null
}
