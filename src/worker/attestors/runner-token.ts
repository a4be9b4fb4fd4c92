// `runner-token`: the caller holds the long-lived token that was minted for one runner ID.

import * as v from 'valibot'
import { refuse } from '../../protocol/refusals.ts'
import { ok } from '../../protocol/result.ts'
import { text } from '../../protocol/shape.ts'
import { hashToken, kindOfToken } from '../../protocol/tokens.ts'
import type { Attestor } from './attestor.ts'
import type { FindToken } from './bootstrap-token.ts'

const FIELDS = v.strictObject({ token: text })

export const runnerToken = (findToken: FindToken): Attestor<typeof FIELDS> => ({
  fields: FIELDS,
  async appraise({ token }, { now }) {
    const kind = kindOfToken(token)
    if (kind === null) return refuse('token_malformed')
    if (kind !== 'runner') return refuse('token_wrong_kind')
    const found = await findToken(await hashToken(token))
    if (found === null) return refuse('token_unknown')
    const claimed = { token: found.id }
    if (found.kind !== 'runner' || found.runnerId === null) return refuse('token_wrong_kind', { claimed })
    if (found.revokedAt !== null) return refuse('token_revoked', { claimed })
    if (found.expiresAt !== null && found.expiresAt <= now) return refuse('token_expired', { claimed })
    return ok({ mode: 'runner-token', tokenId: found.id, tenant: found.tenant, runnerId: found.runnerId })
  },
})
