// Authorizes a caller who has proven who it is: its tenant by the trust file, bans, and rate limits.

import { type Outcome, refuse } from '../../protocol/refusals.ts'
import { ok } from '../../protocol/result.ts'
import { type BanList, findBan } from '../../trust/bans.ts'
import { clientOf, type Decision, decide, provenBy, tokenIdOf } from '../../trust/decide.ts'
import type { Claims } from '../../trust/modes/registry.ts'
import type { Dependencies } from './dependencies.ts'
import type { Facts } from './event.ts'
import { clientKey } from './rate-limit.ts'

export interface Authorized {
  readonly decision: Decision
  /** The list that the caller was checked against. */
  readonly bans: BanList
}

/** Adds to `facts` what is proven by now, also where the caller is refused. */
export async function authorize(deps: Dependencies, claims: Claims, facts: Facts): Promise<Outcome<Authorized>> {
  Object.assign(facts, provenBy(claims), { proven: true })
  const decision = decide(deps.trust, claims)
  if (!decision.ok) return decision
  Object.assign(facts, decision.value)

  const bans = await deps.banList()
  if (!bans.ok) return bans
  const subject = { ...decision.value, enrollmentId: null, tokenId: tokenIdOf(decision.value) }
  if (findBan(bans.value, subject) !== null) return refuse('banned')

  const { tenant } = decision.value
  if (!(await deps.withinRate('identities', clientKey(tenant, clientOf(claims))))) return refuse('rate_limited')
  if (!(await deps.withinRate('tenants', tenant))) return refuse('rate_limited')
  return ok({ decision: decision.value, bans: bans.value })
}
