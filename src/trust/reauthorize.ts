// Whether somebody who is in may stay in: decided anew at every renewal and every connection. Pure.

import { type Outcome, refuse } from '../protocol/refusals.ts'
import { type BanList, findBan } from './bans.ts'
import type { CompiledTrust } from './compiled.ts'
import { type Decision, decide, tokenIdOf } from './decide.ts'
import type { Claims } from './modes/registry.ts'

/** An enrollment as it is remembered: what was proven, and the tenant that its certificates name. */
export interface Enrolled {
  readonly enrollmentId: string
  readonly claims: Claims
  readonly tenant: string
}

/** What was proven then, held against the trust file and the bans of now. */
export function reauthorize(trust: CompiledTrust, list: BanList, enrolled: Enrolled): Outcome<Decision> {
  const { claims, tenant, enrollmentId } = enrolled
  const decision = decide(trust, claims)
  if (!decision.ok) return decision.error.reason === 'node_denied' ? decision : refuse('standing_lost')
  if (decision.value.tenant !== tenant) return refuse('standing_lost')
  const tokenId = tokenIdOf(decision.value)
  if (tokenId !== null && list.revokedTokens.includes(tokenId)) return refuse('token_revoked')
  if (findBan(list, { ...decision.value, enrollmentId, tokenId }) !== null) return refuse('banned')
  return decision
}
