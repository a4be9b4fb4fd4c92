// The way of an enrollment, in the order in which it happens:
// bounds → shape → CSR and nonce → appraise → decide → reserve → issue → answer.

import { type EnrollAnswer, type EnrollRequest, parseEnrollRequest, parseEvidence } from '../../protocol/enroll.ts'
import { nonceIsBoundTo } from '../../protocol/nonce.ts'
import { type Outcome, refuse } from '../../protocol/refusals.ts'
import { ok } from '../../protocol/result.ts'
import type { Json } from '../../protocol/strict-json.ts'
import { type EpochSeconds, toEpochSeconds } from '../../protocol/time.ts'
import type { Claims } from '../../trust/claims.ts'
import type { Attestors } from '../attestors/registry.ts'
import type { Authority } from '../ca/authority.ts'
import { type CertificateRequest, readCsr } from '../ca/csr.ts'
import { answerOf, type Reserved } from './answer.ts'
import type { Door } from './dependencies.ts'
import { type Caller, type Facts, recordGrant } from './event.ts'
import { identify } from './identify.ts'
import { broke, refused } from './refused.ts'
import { renew } from './renew.ts'
import { begin, reserve } from './reserve.ts'
import { recordEnrolled } from './shared-runner-id.ts'

/** `body` is what the bounds let through: bytes, media type and scheme were judged before. */
export async function enroll(door: Door, caller: Caller, body: Outcome<Json>): Promise<Outcome<EnrollAnswer>> {
  const facts: Facts = {}
  try {
    const result = await steps(door, caller, body, facts)
    if (!result.ok) return await refused(door, caller, result.error, facts)
    if (facts.mode === 'mtls-renewal') recordGrant(door.database, caller, 'renewed', facts)
    else caller.later(recordEnrolled(door, caller, facts))
    return result
  } catch (error) {
    return await broke(door, caller, error, facts)
  }
}

async function steps(door: Door, caller: Caller, body: Outcome<Json>, facts: Facts): Promise<Outcome<EnrollAnswer>> {
  const now = toEpochSeconds(caller.at)
  if (!body.ok) return body

  const shaped = parseEnrollRequest(body.value)
  if (!shaped.ok) return shaped
  const request = shaped.value
  facts.instanceId = request.instanceId
  const { mode, fields } = request.attestation
  const attestor = isMode(door.attestors, mode) ? door.attestors[mode] : undefined
  if (attestor === undefined) return refuse('mode_unknown', { detail: 'attestation.mode is none that this door takes' })
  const evidence = parseEvidence(attestor.fields, fields)
  if (!evidence.ok) return evidence
  facts.mode = mode

  const csr = await readBoundCsr(request)
  if (!csr.ok) return csr

  const authority = await door.authority()
  if (!authority.ok) return authority
  const guard = mode === 'mtls-renewal' ? ok(null) : await door.reservedIds()
  if (!guard.ok) return guard

  const proof = await attestor.appraise(evidence.value, { now, challengeNonce: request.challengeNonce })
  if (!proof.ok) return proof

  const reserved =
    proof.value.mode === 'mtls-renewal'
      ? await renew(door, authority.value, proof.value.certificate, csr.value, now, facts)
      : await admit(door, authority.value, proof.value, csr.value, now, facts)
  if (!reserved.ok) return reserved
  facts.enrollmentId = reserved.value.id
  facts.serial = reserved.value.serial
  facts.spiffeId = reserved.value.spiffeId

  return ok(await answerOf(authority.value, reserved.value, csr.value, now))
}

/** Decide and reserve, for whoever is not in yet. */
async function admit(
  door: Door,
  authority: Authority,
  claims: Claims,
  csr: CertificateRequest,
  now: EpochSeconds,
  facts: Facts,
): Promise<Outcome<Reserved>> {
  const identified = await identify(door, claims, facts)
  if (!identified.ok) return identified
  const { decision, bans } = identified.value
  const admission = { now, csr, claims, decision, instanceId: facts.instanceId ?? null }
  const reserved = await reserve(door, authority, admission)
  if (!reserved.ok) return reserved
  facts.enrollmentId = reserved.value.id
  const begun = await begin(door, admission, reserved.value, bans)
  return begun.ok ? reserved : begun
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
