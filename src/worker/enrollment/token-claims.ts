// Judges a minted token as D1 has it. Pure.

import { type Outcome, refuse } from '../../protocol/refusals.ts'
import { ok } from '../../protocol/result.ts'
import type { EpochSeconds } from '../../protocol/time.ts'
import type { TokenKind } from '../../protocol/tokens.ts'
import type { Claims } from '../../trust/modes/registry.ts'
import type { PresentedToken } from '../store/admissions.ts'

/**
 * What the holder of the token has proven. A used bootstrap token is accepted here: it still serves the key that used
 * it, for 10 minutes.
 */
export function tokenClaims(token: PresentedToken, kind: TokenKind, now: EpochSeconds): Outcome<Claims> {
  const { id: tokenId, tenant, runnerId, expiresAt, revokedAt, usedAt } = token
  const claimed = { token: tokenId }
  if (token.kind !== kind) return refuse('token_wrong_kind', { claimed })
  if (revokedAt !== null) return refuse('token_revoked', { claimed })
  if (kind === 'bootstrap') {
    if (usedAt === null && (expiresAt === null || expiresAt <= now)) return refuse('token_expired', { claimed })
    return ok({ mode: 'bootstrap-token', tokenId, tenant })
  }
  if (runnerId === null) return refuse('token_wrong_kind', { claimed })
  if (expiresAt !== null && expiresAt <= now) return refuse('token_expired', { claimed })
  return ok({ mode: 'runner-token', tokenId, tenant, runnerId })
}
