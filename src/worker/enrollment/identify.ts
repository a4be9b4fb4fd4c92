// The decide step of whoever is not in yet: which tenant the proven facts mean, whether it is cut off or too fast.

import { type Outcome, refuse } from '../../protocol/refusals.ts'
import { ok } from '../../protocol/result.ts'
import { type BanList, findBan } from '../../trust/bans.ts'
import type { Claims } from '../../trust/claims.ts'
import { type Decision, decide } from '../../trust/decide.ts'
import { tokenIdOf } from '../../trust/reauthorize.ts'
import type { Door } from './dependencies.ts'
import type { Facts } from './event.ts'
import { proverKeyOf } from './rate-limit.ts'

export interface Identified {
  readonly decision: Decision
  /** What the decision was held against. */
  readonly bans: BanList
}

/** Fills in the facts that are proven by now. */
export async function identify(door: Door, claims: Claims, facts: Facts): Promise<Outcome<Identified>> {
  facts.proven = true
  const decision = decide(door.trust, claims)
  if (!decision.ok) return decision
  Object.assign(facts, decision.value)

  const bans = await door.banList()
  if (!bans.ok) return bans
  const subject = { ...decision.value, enrollmentId: null, tokenId: tokenIdOf(claims) }
  if (findBan(bans.value, subject) !== null) return refuse('banned')

  const prover = proverKeyOf(decision.value, claims)
  if (!(await door.withinRate('identities', prover))) return refuse('rate_limited')
  if (!(await door.withinRate('tenants', decision.value.tenant))) return refuse('rate_limited')
  return ok({ decision: decision.value, bans: bans.value })
}
