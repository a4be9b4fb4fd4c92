// The steps of an enrollment and of a renewal, in their order:
// bounds → shape → CSR and nonce → appraise → authorize and reserve → issue → answer.

import {
  type EnrollAnswer,
  type EnrollRequest,
  type Evidence,
  parseEnrollRequest,
  parseEvidence,
} from '../../protocol/enroll.ts'
import { nonceIsBoundTo } from '../../protocol/nonce.ts'
import { type Outcome, refuse } from '../../protocol/refusals.ts'
import { ok } from '../../protocol/result.ts'
import type { Fields } from '../../protocol/shape.ts'
import type { Json } from '../../protocol/strict-json.ts'
import { rfc3339, toEpochSeconds } from '../../protocol/time.ts'
import type { Appraisal, Attestor } from '../attestors/attestor.ts'
import type { RenewalProof } from '../attestors/mtls-renewal.ts'
import type { Attestors } from '../attestors/registry.ts'
import { chainPem, trustBundlePem } from '../ca/bundle.ts'
import { type CertificateRequest, readCsr } from '../ca/csr.ts'
import { issueCertificate } from '../ca/issue.ts'
import type { Dependencies } from './dependencies.ts'
import { type Caller, type Facts, recorded } from './event.ts'
import { type Issuance, type Reserved, reserveEnrollment, reserveRenewal } from './reserve.ts'

/** `body`: parsed JSON within the bounds of `http/bounds.ts`, or why there is none. */
export async function enroll(deps: Dependencies, caller: Caller, body: Outcome<Json>): Promise<Outcome<EnrollAnswer>> {
  const issued = await recorded(
    deps,
    caller,
    (facts) => steps(deps, caller, body, facts),
    ({ granted }) => granted,
  )
  return issued.ok ? ok(issued.value.answer) : issued
}

interface Issued {
  readonly granted: Procedure['granted']
  readonly answer: EnrollAnswer
}

async function steps(deps: Dependencies, caller: Caller, body: Outcome<Json>, facts: Facts): Promise<Outcome<Issued>> {
  const now = toEpochSeconds(caller.at)
  if (!body.ok) return body

  const shaped = parseEnrollRequest(body.value)
  if (!shaped.ok) return shaped
  const request = shaped.value
  facts.instanceId = request.instanceId
  const { mode, fields } = request.attestation
  const procedure = procedureOf(deps, mode)
  if (procedure === null) return refuse('mode_unknown', { detail: 'attestation.mode is none that this door takes' })
  const evidence = parseEvidence(procedure.fields, fields)
  if (!evidence.ok) return evidence
  facts.mode = mode

  const csr = await readBoundCsr(request)
  if (!csr.ok) return csr

  const authority = await deps.authority()
  if (!authority.ok) return authority
  const issuance: Issuance = { authority: authority.value, csr: csr.value, now }
  const appraisal: Appraisal = { now, challengeNonce: request.challengeNonce }
  const reserved = await procedure.reserve(evidence.value, appraisal, issuance, facts)
  if (!reserved.ok) return reserved
  const { enrollmentId, serial, spiffeId } = reserved.value
  Object.assign(facts, { enrollmentId, serial, spiffeId })

  return ok({ granted: procedure.granted, answer: await issueReserved(issuance, reserved.value) })
}

/** The steps in which an enrollment and a renewal differ. */
interface Procedure {
  readonly granted: 'enrolled' | 'renewed'
  /** Of its evidence. */
  readonly fields: Fields
  /** Appraises the evidence, authorizes, and puts the certificate on record. */
  readonly reserve: (
    evidence: Evidence<Fields>,
    appraisal: Appraisal,
    issuance: Issuance,
    facts: Facts,
  ) => Promise<Outcome<Reserved>>
}

/** Null: there is no such mode. */
function procedureOf(deps: Dependencies, mode: string): Procedure | null {
  if (!isMode(deps.attestors, mode)) return null
  return mode === 'mtls-renewal' ? renewalBy(deps, deps.attestors[mode]) : enrollmentBy(deps, deps.attestors[mode])
}

const enrollmentBy = (deps: Dependencies, attestor: Attestor): Procedure => ({
  granted: 'enrolled',
  fields: attestor.fields,
  async reserve(evidence, appraisal, issuance, facts) {
    const reservedIds = await deps.checkReservedIds()
    if (!reservedIds.ok) return reservedIds
    const claims = await attestor.appraise(evidence, appraisal)
    return claims.ok ? reserveEnrollment(deps, issuance, claims.value, facts) : claims
  },
})

const renewalBy = (deps: Dependencies, attestor: Attestor<Fields, RenewalProof>): Procedure => ({
  granted: 'renewed',
  fields: attestor.fields,
  async reserve(evidence, appraisal, issuance, facts) {
    const proof = await attestor.appraise(evidence, appraisal)
    return proof.ok ? reserveRenewal(deps, issuance, proof.value.leaf, facts) : proof
  },
})

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

async function issueReserved({ authority, csr, now }: Issuance, reserved: Reserved): Promise<EnrollAnswer> {
  const { pem } = await issueCertificate(authority, { ...reserved, spki: csr.spki })
  return {
    version: 1,
    certificate: pem,
    chain: chainPem(authority),
    trustBundle: trustBundlePem(authority),
    spiffeId: reserved.spiffeId,
    tenant: reserved.tenant,
    runnerId: reserved.runnerId,
    enrollmentId: reserved.enrollmentId,
    notBefore: rfc3339(reserved.notBefore),
    notAfter: rfc3339(reserved.notAfter),
    serverTime: rfc3339(now),
  }
}
