// The way through the Connect door: a bearer token → the runner ID that its holder goes by. No certificate, no
// enrollment. dispatch by shape → appraise → decide → bans → rates → runner ID → event.

import { parseEvidence } from '../../protocol/enroll.ts'
import { type Outcome, refuse } from '../../protocol/refusals.ts'
import { ok } from '../../protocol/result.ts'
import { toEpochSeconds } from '../../protocol/time.ts'
import { isCompactJws } from '../../protocol/tokens.ts'
import type { Dependencies } from './dependencies.ts'
import { type Caller, type Facts, recorded } from './event.ts'
import { decideAndLimit } from './reserve.ts'

/**
 * `authorization` is the header as it came; `asked` the runner ID that the message names, empty for none, or why
 * there is no message.
 */
export const nameRunner = (
  deps: Dependencies,
  caller: Caller,
  authorization: string | null,
  asked: Outcome<string>,
): Promise<Outcome<string>> =>
  recorded(
    deps,
    caller,
    (facts) => steps(deps, caller, authorization, asked, facts),
    () => 'named',
  )

async function steps(
  deps: Dependencies,
  caller: Caller,
  authorization: string | null,
  asked: Outcome<string>,
  facts: Facts,
): Promise<Outcome<string>> {
  if (!asked.ok) return asked

  const authority = await deps.authority()
  if (!authority.ok) return authority
  const reservedIds = await deps.checkReservedIds()
  if (!reservedIds.ok) return reservedIds

  const token = bearerOf(authorization)
  if (token === null) return refuse('token_malformed')
  // By shape, before any lookup: what looks like a JWS is never hashed, and what does not is never verified as one.
  const mode = isCompactJws(token) ? 'kubernetes' : 'runner-token'
  facts.mode = mode
  const attestor = deps.attestors[mode]
  const evidence = parseEvidence(attestor.fields, { token })
  if (!evidence.ok) return evidence
  // Nothing is bound to a key here: a bearer token is all that this door asks for.
  const claims = await attestor.appraise(evidence.value, { now: toEpochSeconds(caller.at), challengeNonce: '' })
  if (!claims.ok) return claims
  const decided = await decideAndLimit(deps, claims.value, facts)
  if (!decided.ok) return decided
  const { runnerId } = decided.value.decision

  if (runnerId === null) return refuse('node_claim')
  if (asked.value !== '' && asked.value !== runnerId) return refuse('runner_id_mismatch')
  return ok(runnerId)
}

const BEARER = 'bearer '

/** RFC 6750 §2.1; the scheme's case does not count (RFC 9110 §11.1). */
function bearerOf(authorization: string | null): string | null {
  if (authorization === null || authorization.slice(0, BEARER.length).toLowerCase() !== BEARER) return null
  return authorization.slice(BEARER.length)
}
