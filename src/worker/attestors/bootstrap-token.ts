// `bootstrap-token`: the caller holds a single-use token that was minted for a tenant.

import * as v from 'valibot'
import { refuse } from '../../protocol/refusals.ts'
import { ok } from '../../protocol/result.ts'
import { text } from '../../protocol/shape.ts'
import type { EpochSeconds } from '../../protocol/time.ts'
import { hashToken, kindOfToken, type TokenKind } from '../../protocol/tokens.ts'
import type { Attestor } from './attestor.ts'

/** What the store knows of a minted token. */
export interface MintedToken {
  readonly id: string
  readonly kind: TokenKind
  readonly tenant: string
  readonly runnerId: string | null
  readonly expiresAt: EpochSeconds | null
  readonly revokedAt: EpochSeconds | null
  readonly usedAt: EpochSeconds | null
}

/** Looks a token up by its SHA-256 in hex. */
export type FindToken = (hash: string) => Promise<MintedToken | null>

const FIELDS = v.strictObject({ token: text })

/**
 * A used token passes here: whether it was used by this very key, within the time for retries, is for the reserve
 * step to judge in the same transaction that consumes one.
 */
export const bootstrapToken = (findToken: FindToken): Attestor<typeof FIELDS> => ({
  fields: FIELDS,
  async appraise({ token }, { now }) {
    const kind = kindOfToken(token)
    if (kind === null) return refuse('token_malformed')
    if (kind !== 'bootstrap') return refuse('token_wrong_kind')
    const found = await findToken(await hashToken(token))
    if (found === null) return refuse('token_unknown')
    const claimed = { token: found.id }
    if (found.kind !== 'bootstrap') return refuse('token_wrong_kind', { claimed })
    if (found.revokedAt !== null) return refuse('token_revoked', { claimed })
    if (found.usedAt === null && (found.expiresAt === null || found.expiresAt <= now)) {
      return refuse('token_expired', { claimed })
    }
    return ok({ mode: 'bootstrap-token', tokenId: found.id, tenant: found.tenant })
  },
})
