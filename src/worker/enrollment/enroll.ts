// The way of an enrollment and of a renewal, in the order in which it happens:
// bounds → shape → CSR and nonce → appraise → decide → reserve → issue → answer.

import { type EnrollAnswer, type EnrollRequest, parseEnrollRequest, parseEvidence } from '../../protocol/enroll.ts'
import type { Leaf } from '../../protocol/leaf.ts'
import { nonceIsBoundTo } from '../../protocol/nonce.ts'
import { type Outcome, refuse } from '../../protocol/refusals.ts'
import { ok } from '../../protocol/result.ts'
import type { Json } from '../../protocol/strict-json.ts'
import { type EpochSeconds, toEpochSeconds } from '../../protocol/time.ts'
import type { Claims } from '../../trust/modes/registry.ts'
import type { Attestors } from '../attestors/registry.ts'
import type { Authority } from '../ca/authority.ts'
import { type CertificateRequest, readCsr } from '../ca/csr.ts'
import { answerWith, contentFor, type Reserved } from './answer.ts'
import type { Dependencies } from './dependencies.ts'
import { type Caller, type Facts, recorded } from './event.ts'
import { begin, decideAndLimit, reserve } from './reserve.ts'

/** `body` is what the bounds let through: bytes, media type and scheme were judged before. */
export const enroll = (deps: Dependencies, caller: Caller, body: Outcome<Json>): Promise<Outcome<EnrollAnswer>> =>
  recorded(
    deps,
    caller,
    (facts) => steps(deps, caller, body, facts),
    ({ mode }) => (mode === 'mtls-renewal' ? 'renewed' : 'enrolled'),
  )

async function steps(
  deps: Dependencies,
  caller: Caller,
  body: Outcome<Json>,
  facts: Facts,
): Promise<Outcome<EnrollAnswer>> {
  const now = toEpochSeconds(caller.at)
  if (!body.ok) return body

  const shaped = parseEnrollRequest(body.value)
  if (!shaped.ok) return shaped
  const request = shaped.value
  facts.instanceId = request.instanceId
  const { mode, fields } = request.attestation
  const attestor = isMode(deps.attestors, mode) ? deps.attestors[mode] : undefined
  if (attestor === undefined) return refuse('mode_unknown', { detail: 'attestation.mode is none that this door takes' })
  const evidence = parseEvidence(attestor.fields, fields)
  if (!evidence.ok) return evidence
  facts.mode = mode

  const csr = await readBoundCsr(request)
  if (!csr.ok) return csr

  const authority = await deps.authority()
  if (!authority.ok) return authority
  const reservedIds = mode === 'mtls-renewal' ? ok(null) : await deps.checkReservedIds()
  if (!reservedIds.ok) return reservedIds

  const proof = await attestor.appraise(evidence.value, { now, challengeNonce: request.challengeNonce })
  if (!proof.ok) return proof

  const reserved =
    proof.value.mode === 'mtls-renewal'
      ? await reserveRenewal(deps, authority.value, proof.value.leaf, csr.value, now, facts)
      : await reserveEnrollment(deps, authority.value, proof.value, csr.value, now, facts)
  if (!reserved.ok) return reserved
  const { enrollmentId, serial, spiffeId } = reserved.value
  Object.assign(facts, { enrollmentId, serial, spiffeId })

  return ok(await answerWith(authority.value, reserved.value, csr.value, now))
}

/** Decide and reserve, for a caller who has no certificate yet. */
async function reserveEnrollment(
  deps: Dependencies,
  authority: Authority,
  claims: Claims,
  csr: CertificateRequest,
  now: EpochSeconds,
  facts: Facts,
): Promise<Outcome<Reserved>> {
  const decided = await decideAndLimit(deps, claims, facts)
  if (!decided.ok) return decided
  const { decision, bans } = decided.value
  const admission = { now, csr, claims, decision, instanceId: facts.instanceId ?? null }
  const reserved = await reserve(deps, authority, admission)
  if (!reserved.ok) return reserved
  facts.enrollmentId = reserved.value.enrollmentId
  const begun = await begin(deps, admission, reserved.value, bans)
  return begun.ok ? reserved : begun
}

/**
 * Decide and reserve, for the holder of a certificate: one call to the enrollment's object does both. Tenant, mode,
 * source and enrollment are the presented certificate's; the trust domain and the times are today's.
 */
async function reserveRenewal(
  deps: Dependencies,
  authority: Authority,
  presented: Leaf,
  csr: CertificateRequest,
  now: EpochSeconds,
  facts: Facts,
): Promise<Outcome<Reserved>> {
  const { enrollmentId, tenant, mode, source } = presented
  noteLeaf(facts, presented)
  const bans = await deps.banList()
  if (!bans.ok) return bans
  if (!(await deps.withinRate('identities', enrollmentId))) return refuse('rate_limited')
  const content = contentFor(deps, authority, tenant, csr, now)
  if (!content.ok) return content
  const { known, result } = await deps.enrollmentObject(enrollmentId).renew(presented, content.value, bans.value)
  facts.identity = known?.identity ?? null
  facts.runnerId = known?.runnerId ?? null
  if (!result.ok) return result
  return ok({ enrollmentId, tenant, mode, source, runnerId: facts.runnerId, ...result.value.certificate })
}

/** What a proven certificate says of its holder. */
export function noteLeaf(facts: Facts, { tenant, source, enrollmentId, serial, spiffeId }: Leaf): void {
  Object.assign(facts, { proven: true, tenant, source, enrollmentId, serial, spiffeId })
}

/** A name that the request gives is a mode only where the registry has it as its own. */
const isMode = (attestors: Attestors, name: string): name is keyof Attestors => Object.hasOwn(attestors, name)

/** The key is proven twice: the CSR is signed by it, and the nonce that the evidence is bound to names it. */
async function readBoundCsr({ csr: pem, challengeNonce }: EnrollRequest): Promise<Outcome<CertificateRequest>> {
  const csr = await readCsr(pem)
  if (!csr.ok) return csr
  if (csr.value.challenge !== challengeNonce)
    return refuse('nonce_not_in_csr', { detail: 'the challengePassword of the CSR differs from challengeNonce' })
  if (!(await nonceIsBoundTo(challengeNonce, csr.value.spki))) return refuse('nonce_not_bound')
  return csr
}
