// Decides anew, at every renewal and connection, whether an enrollment is still authorized. Pure.

import { type Outcome, refuse } from '../protocol/refusals.ts'
import { type BanList, findBan } from './bans.ts'
import type { CompiledTrust } from './compiled.ts'
import { type Decision, decide, tokenIdOf } from './decide.ts'
import type { Claims } from './modes/registry.ts'

/** What was proven at enrollment, and the tenant of its certificates. */
export interface Enrolled {
  readonly enrollmentId: string
  readonly claims: Claims
  readonly tenant: string
  /** What was decided then. */
  readonly decision: Pick<Decision, 'runnerId'>
}

/** Decides on the claims of the enrollment by today's trust file and bans. */
export function reauthorize(trust: CompiledTrust, list: BanList, enrolled: Enrolled): Outcome<Decision> {
  const { claims, tenant, enrollmentId } = enrolled
  const decision = decide(trust, claims)
  if (!decision.ok) return decision.error.reason === 'node_denied' ? decision : refuse('standing_lost')
  if (decision.value.tenant !== tenant) return refuse('standing_lost')
  const tokenId = tokenIdOf(decision.value)
  if (tokenId !== null && list.revokedTokens.includes(tokenId)) return refuse('token_revoked')
  // A ban still finds the runner by the ID that it enrolled with where the trust file no longer attests one.
  const runnerId = decision.value.runnerId ?? enrolled.decision.runnerId
  if (findBan(list, { ...decision.value, runnerId, enrollmentId, tokenId }) !== null) return refuse('banned')
  return decision
}
