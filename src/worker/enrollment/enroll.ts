// The steps of an enrollment and of a renewal, in their order:
// bounds → shape → CSR and nonce → appraise → authorize, reserve and issue → answer.

import { type EnrollAnswer, type EnrollRequest, parseEnrollRequest, parseEvidence } from '../../protocol/enroll.ts'
import { nonceIsBoundTo } from '../../protocol/nonce.ts'
import { encodePem } from '../../protocol/pem.ts'
import { type Outcome, refuse } from '../../protocol/refusals.ts'
import { ok } from '../../protocol/result.ts'
import type { Json } from '../../protocol/strict-json.ts'
import { rfc3339, toEpochSeconds } from '../../protocol/time.ts'
import type { Attestors } from '../attestors/registry.ts'
import { chainPem, trustBundlePem } from '../ca/bundle.ts'
import { type CertificateRequest, readCsr } from '../ca/csr.ts'
import type { Dependencies } from './dependencies.ts'
import { type Caller, type Facts, recorded } from './event.ts'
import type { Issuance, Issued } from './issuance.ts'
import { issueEnrollment } from './issue-enrollment.ts'
import { issueRenewal } from './issue-renewal.ts'

/** `body`: parsed JSON within the bounds of `http/bounds.ts`, or why there is none. */
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
  if (attestor === undefined)
    return refuse('mode_unknown', { detail: 'attestation.mode is none that this control plane takes' })
  const evidence = parseEvidence(attestor.fields, fields)
  if (!evidence.ok) return evidence
  facts.mode = mode

  const csr = await readBoundCsr(request)
  if (!csr.ok) return csr

  const authority = await deps.authority()
  if (!authority.ok) return authority

  const { challengeNonce } = request
  const proof = await attestor.appraise(evidence.value, { now, challengeNonce, address: caller.address })
  if (!proof.ok) return proof

  const issuance: Issuance = { authority: authority.value, csr: csr.value, now, waitUntil: caller.waitUntil }
  const issued =
    'leaf' in proof.value
      ? await issueRenewal(deps, issuance, proof.value.leaf, facts)
      : await issueEnrollment(deps, issuance, proof.value, facts)
  if (!issued.ok) return issued
  const { enrollmentId, serial, spiffeId } = issued.value
  Object.assign(facts, { enrollmentId, serial, spiffeId })

  return ok(answerWith(issuance, issued.value))
}

/** Only the registry's own names are modes: `constructor` is none. */
const isMode = (attestors: Attestors, name: string): name is keyof Attestors => Object.hasOwn(attestors, name)

/** The CSR is signed by its key, and the nonce that the evidence is bound to was made for that key. */
async function readBoundCsr({ csr: pem, challengeNonce }: EnrollRequest): Promise<Outcome<CertificateRequest>> {
  const csr = await readCsr(pem)
  if (!csr.ok) return csr
  if (csr.value.challenge !== challengeNonce)
    return refuse('nonce_not_in_csr', { detail: 'the challengePassword of the CSR differs from challengeNonce' })
  if (!(await nonceIsBoundTo(challengeNonce, csr.value.spki))) return refuse('nonce_not_bound')
  return csr
}

const answerWith = ({ authority, now }: Issuance, issued: Issued): EnrollAnswer => ({
  version: 1,
  certificate: encodePem('CERTIFICATE', issued.der),
  chain: chainPem(authority),
  trustBundle: trustBundlePem(authority),
  spiffeId: issued.spiffeId,
  tenant: issued.tenant,
  runnerId: issued.runnerId,
  enrollmentId: issued.enrollmentId,
  notBefore: rfc3339(issued.notBefore),
  notAfter: rfc3339(issued.notAfter),
  serverTime: rfc3339(now),
})
