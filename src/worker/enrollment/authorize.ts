// Authorizes a caller without a certificate: rates, its tenant by the trust file, and what D1 says of it. D1 is asked once.

import { type Outcome, refuse } from '../../protocol/refusals.ts'
import { ok } from '../../protocol/result.ts'
import type { EpochSeconds } from '../../protocol/time.ts'
import { namesOf } from '../../trust/bans.ts'
import { clientOf, type Decision, decide, provenBy, tokenIdOf } from '../../trust/decide.ts'
import type { Claims } from '../../trust/modes/registry.ts'
import type { TokenProof } from '../attestors/minted-token.ts'
import type { Admission, PresentedToken } from '../store/admissions.ts'
import { askAll } from '../store/ask-all.ts'
import type { PlatformIdentity } from '../store/reservations.ts'
import type { Shard } from '../store/shard.ts'
import type { Dependencies } from './dependencies.ts'
import type { Facts } from './event.ts'
import { clientKey, tokenKey } from './rate-limit.ts'
import { tokenClaims } from './token-claims.ts'

/** `T`: what D1 was asked for. */
export interface Authorized<T> {
  readonly decision: Decision
  readonly found: T
}

/** Evidence of a platform. `facts` get what is proven by now, also where the caller is refused. */
export async function authorizeEvidence<T extends Admission>(
  deps: Dependencies,
  claims: Claims,
  ask: (shard: Shard, identity: PlatformIdentity) => Promise<T>,
  facts: Facts,
): Promise<Outcome<Authorized<T>>> {
  const decision = decideAndNote(deps, claims, facts)
  if (!decision.ok) return decision
  const { tenant } = decision.value
  if (!(await deps.withinRate('identities', clientKey(tenant, clientOf(claims))))) return refuse('rate_limited')
  if (!(await deps.withinRate('tenants', tenant))) return refuse('rate_limited')

  const names = namesOf({ ...decision.value, enrollmentId: null, tokenId: tokenIdOf(decision.value) })
  const { mode, source, identity, runnerId } = decision.value
  const found = await ask(deps.shards.of(tenant), {
    mode,
    source,
    tenant,
    identity,
    runnerId,
    claims: JSON.stringify(claims),
    bannedBy: JSON.stringify(names),
  })
  return admitted(found) ?? ok({ decision: decision.value, found })
}

/**
 * A minted token. Whose it is, only D1 knows. So all shards are asked, and the rate of its tenant is counted afterwards.
 */
export async function authorizeToken<T extends Admission & { readonly token: PresentedToken }>(
  deps: Dependencies,
  { kind, tokenHash }: TokenProof,
  now: EpochSeconds,
  ask: (shard: Shard) => Promise<T | null>,
  facts: Facts,
): Promise<Outcome<Authorized<T>>> {
  if (!(await deps.withinRate('identities', tokenKey(tokenHash)))) return refuse('rate_limited')
  const found = await askAll(deps.shards.all, async (shard) => {
    const found = await ask(shard)
    // A token in another shard than its tenant is none: what it would enroll would be looked for in vain.
    return found !== null && deps.shards.of(found.token.tenant) === shard ? found : null
  })
  if (found === null) return refuse('token_unknown')
  const claims = tokenClaims(found.token, kind, now)
  if (!claims.ok) return claims
  const decision = decideAndNote(deps, claims.value, facts)
  if (!decision.ok) return decision
  const refused = admitted(found)
  if (refused !== null) return refused
  const within = await deps.withinRate('tenants', decision.value.tenant)
  // A bootstrap token may be consumed by now, so a refusal would burn it: it counts, and is served.
  if (!within && kind !== 'bootstrap') return refuse('rate_limited')
  return ok({ decision: decision.value, found })
}

/** Decides by the trust file. `facts` get what is proven first, so that a refusal names it, too. */
function decideAndNote(deps: Dependencies, claims: Claims, facts: Facts): Outcome<Decision> {
  Object.assign(facts, provenBy(claims), { proven: true })
  const decision = decide(deps.trust, claims)
  if (decision.ok) Object.assign(facts, decision.value)
  return decision
}

/** The refusal; null where the caller is admitted. */
function admitted({ banned, reservedRunnerId }: Admission): Outcome<never> | null {
  if (reservedRunnerId !== null) {
    return refuse('slash_in_runner_id', { detail: 'a minted runner ID holds "/", which is reserved for clusters' })
  }
  return banned ? refuse('banned') : null
}
