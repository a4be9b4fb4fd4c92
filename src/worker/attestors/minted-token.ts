// Looks up a token that was minted here by its hash, for the two modes that take one.

import { type Outcome, refuse } from '../../protocol/refusals.ts'
import { ok } from '../../protocol/result.ts'
import type { EpochSeconds } from '../../protocol/time.ts'
import { hashToken, kindOfToken, type TokenKind } from '../../protocol/tokens.ts'

/** The stored part of a minted token. */
export interface MintedToken {
  readonly id: string
  readonly kind: TokenKind
  readonly tenant: string
  readonly runnerId: string | null
  readonly expiresAt: EpochSeconds | null
  readonly revokedAt: EpochSeconds | null
  readonly usedAt: EpochSeconds | null
}

/** Looks a token up by its SHA-256 in hexadecimal. */
export type FindToken = (hash: string) => Promise<MintedToken | null>

/** The token, where it is of this kind and not revoked. Its expiry is for the caller to judge. */
export async function findMinted(findToken: FindToken, token: string, kind: TokenKind): Promise<Outcome<MintedToken>> {
  const prefixed = kindOfToken(token)
  if (prefixed === null) return refuse('token_malformed')
  if (prefixed !== kind) return refuse('token_wrong_kind')
  const found = await findToken(await hashToken(token))
  if (found === null) return refuse('token_unknown')
  const claimed = { token: found.id }
  if (found.kind !== kind) return refuse('token_wrong_kind', { claimed })
  return found.revokedAt === null ? ok(found) : refuse('token_revoked', { claimed })
}
