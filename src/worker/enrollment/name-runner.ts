// The steps of a call to the Connect door: names the runner that holds a bearer token. It makes no enrollment.
// The order: mode by the token's form → appraise → authorize → runner ID.

import { parseEvidence } from '../../protocol/enroll.ts'
import { type Outcome, refuse } from '../../protocol/refusals.ts'
import { ok } from '../../protocol/result.ts'
import { type EpochSeconds, toEpochSeconds } from '../../protocol/time.ts'
import { isCompactJws } from '../../protocol/tokens.ts'
import { proveToken } from '../attestors/minted-token.ts'
import type { Admission } from '../store/admissions.ts'
import { type Authorized, authorizeEvidence, authorizeToken } from './authorize.ts'
import type { Dependencies } from './dependencies.ts'
import { type Caller, type Facts, recorded } from './event.ts'

/**
 * `authorization`: the header. `asked`: the runner ID in the message, empty for none; or why there is no message. The
 * value is the runner ID.
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

  const token = bearerOf(authorization)
  if (token === null) return refuse('token_malformed')
  const now = toEpochSeconds(caller.at)
  // A compact JWS is never looked up as a minted token, and any other token is never verified as a JWS.
  const authorized = isCompactJws(token)
    ? await authorizeWorkload(deps, token, { now, address: caller.address }, facts)
    : await authorizeMinted(deps, token, now, facts)
  if (!authorized.ok) return authorized
  const { runnerId } = authorized.value.decision

  if (runnerId === null) return refuse('runner_id_none')
  if (asked.value !== '' && asked.value !== runnerId) return refuse('runner_id_mismatch')
  return ok(runnerId)
}

async function authorizeWorkload(
  deps: Dependencies,
  token: string,
  { now, address }: { readonly now: EpochSeconds; readonly address: string },
  facts: Facts,
): Promise<Outcome<Authorized<Admission>>> {
  facts.mode = 'kubernetes'
  const attestor = deps.attestors.kubernetes
  const evidence = parseEvidence(attestor.fields, { token })
  if (!evidence.ok) return evidence
  // There is no CSR here, so the token is bound to no key.
  const claims = await attestor.appraise(evidence.value, { now, challengeNonce: '', address })
  if (!claims.ok) return claims
  return authorizeEvidence(
    deps,
    claims.value,
    ({ admissions }, { bannedBy }) => admissions.ofEvidence(bannedBy, now),
    facts,
  )
}

async function authorizeMinted(
  deps: Dependencies,
  token: string,
  now: EpochSeconds,
  facts: Facts,
): Promise<Outcome<Authorized<Admission>>> {
  facts.mode = 'runner-token'
  const proof = await proveToken(token, 'runner')
  if (!proof.ok) return proof
  const { tokenHash } = proof.value
  return authorizeToken(deps, proof.value, now, ({ admissions }) => admissions.ofToken(tokenHash, now), facts)
}

const BEARER = 'bearer '

/** The token (RFC 6750 §2.1), or null; the scheme is case-insensitive (RFC 9110 §11.1). */
function bearerOf(authorization: string | null): string | null {
  if (authorization === null || authorization.slice(0, BEARER.length).toLowerCase() !== BEARER) return null
  return authorization.slice(BEARER.length)
}
