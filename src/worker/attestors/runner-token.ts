// `runner-token`: the caller holds the long-lived token that was minted for one runner ID.

import * as v from 'valibot'
import { refuse } from '../../protocol/refusals.ts'
import { ok } from '../../protocol/result.ts'
import { text } from '../../protocol/shape.ts'
import type { Attestor } from './attestor.ts'
import { type FindToken, findMinted } from './minted-token.ts'

const FIELDS = v.strictObject({ token: text })

export const runnerToken = (findToken: FindToken): Attestor<typeof FIELDS> => ({
  fields: FIELDS,
  async appraise({ token }, { now }) {
    const found = await findMinted(findToken, token, 'runner')
    if (!found.ok) return found
    const { id, tenant, runnerId, expiresAt } = found.value
    const claimed = { token: id }
    if (runnerId === null) return refuse('token_wrong_kind', { claimed })
    if (expiresAt !== null && expiresAt <= now) return refuse('token_expired', { claimed })
    return ok({ mode: 'runner-token', tokenId: id, tenant, runnerId })
  },
})
