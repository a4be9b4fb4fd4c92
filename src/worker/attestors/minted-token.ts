// `bootstrap-token` and `runner-token`: the caller holds a token that was minted here.

import * as v from 'valibot'
import { type Outcome, refuse } from '../../protocol/refusals.ts'
import { ok } from '../../protocol/result.ts'
import { text } from '../../protocol/shape.ts'
import { hashToken, kindOfToken, type TokenKind } from '../../protocol/tokens.ts'
import type { Attestor } from './attestor.ts'

/** A text in the form of a minted token. Only the transaction that reserves an enrollment can tell what it is worth. */
export interface TokenProof {
  readonly kind: TokenKind
  /** SHA-256 of the token in hexadecimal. */
  readonly tokenHash: string
}

const FIELDS = v.strictObject({ token: text })

export const mintedToken = (kind: TokenKind): Attestor<typeof FIELDS, TokenProof> => ({
  fields: FIELDS,
  appraise: ({ token }) => proveToken(token, kind),
})

/** The token by its hash, where it has the form of this kind. */
export async function proveToken(token: string, kind: TokenKind): Promise<Outcome<TokenProof>> {
  const prefixed = kindOfToken(token)
  if (prefixed === null) return refuse('token_malformed')
  if (prefixed !== kind) return refuse('token_wrong_kind')
  return ok({ kind, tokenHash: await hashToken(token) })
}
