// `bootstrap-token`: the caller holds a single-use token that was minted for a tenant.

import * as v from 'valibot'
import { refuse } from '../../protocol/refusals.ts'
import { ok } from '../../protocol/result.ts'
import { text } from '../../protocol/shape.ts'
import type { Attestor } from './attestor.ts'
import { type FindToken, findMinted } from './minted-token.ts'

const FIELDS = v.strictObject({ token: text })

/**
 * A used token is accepted here. The reserve step refuses it, unless the same key used it within the last 10 minutes:
 * only the transaction that consumes a token can tell.
 */
export const bootstrapToken = (findToken: FindToken): Attestor<typeof FIELDS> => ({
  fields: FIELDS,
  async appraise({ token }, { now }) {
    const found = await findMinted(findToken, token, 'bootstrap')
    if (!found.ok) return found
    const { id, tenant, usedAt, expiresAt } = found.value
    if (usedAt === null && (expiresAt === null || expiresAt <= now)) {
      return refuse('token_expired', { claimed: { token: id } })
    }
    return ok({ mode: 'bootstrap-token', tokenId: id, tenant })
  },
})
