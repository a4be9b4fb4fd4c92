// Issues the first certificate of an enrollment: authorize and reserve, in one transaction of D1, then sign. The
// enrollment's object is not needed before the first renewal or connection.

import { decodeBase64url, encodeBase64url } from '../../protocol/bytes.ts'
import { type LeafContent, type LeafSubject, recordedContent } from '../../protocol/leaf.ts'
import { SAME_KEY_RETRY } from '../../protocol/limits.ts'
import { type Outcome, refuse } from '../../protocol/refusals.ts'
import { ok } from '../../protocol/result.ts'
import { subtractSeconds, toEpochMilliseconds } from '../../protocol/time.ts'
import { uuidv7 } from '../../protocol/uuid.ts'
import type { Decision } from '../../trust/decide.ts'
import type { Claims } from '../../trust/modes/registry.ts'
import type { TokenProof } from '../attestors/minted-token.ts'
import { issueCertificate } from '../ca/issue.ts'
import { newSerial, validityOf } from '../ca/profile.ts'
import { isFresh, type SignedLeaf } from '../fleet/lineage.ts'
import type { PresentedToken } from '../store/admissions.ts'
import type { Application, Enrollment, Reservation } from '../store/reservations.ts'
import { authorizeEvidence, authorizeToken } from './authorize.ts'
import type { Dependencies } from './dependencies.ts'
import type { Facts } from './event.ts'
import type { Issuance, Issued } from './issuance.ts'

/** For a caller without a certificate: a new enrollment, or that of its last try. It is in D1 before it is signed. */
export async function issueEnrollment(
  deps: Dependencies,
  issuance: Issuance,
  proof: Claims | TokenProof,
  facts: Facts,
): Promise<Outcome<Issued>> {
  const application = newApplication(deps, issuance, facts.instanceId ?? null)
  if (!application.ok) return application
  const reserved =
    'tokenHash' in proof
      ? await reserveByToken(deps, application.value, proof, facts)
      : await reserveByEvidence(deps, application.value, proof, facts)
  if (!reserved.ok) return reserved
  const { decision, enrollment } = reserved.value
  const { enrollmentId, runnerId, sharedUntil } = enrollment
  Object.assign(facts, { enrollmentId, sharedUntil })

  const { tenant, mode, source } = decision
  const subject = { enrollmentId, tenant, mode, source }
  const onRecord = recordedContent(enrollment, tenant)
  const candidate = recordedContent(application.value, tenant)
  // A first try, or a repeated one of which nothing has become yet.
  if (enrollment.begunAt === null && isFresh(onRecord, candidate, issuance.now)) {
    const signed = await signFirst(deps, issuance, { ...subject, ...onRecord }, enrollment, facts)
    return ok({ ...subject, ...signed, runnerId })
  }
  const bans = await deps.shards.of(tenant).banList(issuance.waitUntil)
  if (!bans.ok) return bans
  const { der } = await issueCertificate(issuance.authority, { ...subject, ...candidate, spki: issuance.csr.spki })
  const object = deps.enrollmentObject(enrollmentId)
  const again = await object.repeat({ enrollmentId, tenant }, { ...candidate, der }, bans.value)
  return again.ok ? ok({ ...subject, ...again.value, runnerId }) : again
}

/** Trust domain and lifetime are today's. */
function newApplication(
  { trust }: Dependencies,
  { authority, csr, now }: Issuance,
  instanceId: string | null,
): Outcome<Application> {
  const validity = validityOf(authority, now, trust.certificate.lifetime)
  if (!validity.ok) return validity
  return ok({
    enrollmentId: uuidv7(toEpochMilliseconds(now)),
    instanceId,
    enrolledAt: now,
    publicKeyHash: csr.publicKeyHash,
    serial: newSerial(),
    trustDomain: trust.trustDomain,
    ...validity.value,
    issuer: authority.issuerKeyId,
  })
}

interface Reserved {
  readonly decision: Decision
  readonly enrollment: Enrollment
}

async function reserveByEvidence(
  deps: Dependencies,
  application: Application,
  claims: Claims,
  facts: Facts,
): Promise<Outcome<Reserved>> {
  const authorized = await authorizeEvidence(
    deps,
    claims,
    ({ reservations }, identity) => reservations.byEvidence(identity, application),
    facts,
  )
  if (!authorized.ok) return authorized
  const { decision, found } = authorized.value
  if (found.enrollment === null) throw new Error('an admitted caller was not recorded')
  return ok({ decision, enrollment: found.enrollment })
}

async function reserveByToken(
  deps: Dependencies,
  application: Application,
  proof: TokenProof,
  facts: Facts,
): Promise<Outcome<Reserved>> {
  const authorized = await authorizeToken(
    deps,
    proof,
    application.enrolledAt,
    ({ reservations }) => reservations.byToken(proof.kind, proof.tokenHash, application),
    facts,
  )
  if (!authorized.ok) return authorized
  const { decision, found } = authorized.value
  const enrollment = tokenOutcome(found, application)
  return enrollment.ok ? ok({ decision, enrollment: enrollment.value }) : enrollment
}

/** A consumed token still serves the key that consumed it, for 10 minutes, because an answer can be lost. */
function tokenOutcome(
  { token, enrollment }: Reservation & { readonly token: PresentedToken },
  { publicKeyHash, enrolledAt }: Application,
): Outcome<Enrollment> {
  const claimed = { token: token.id }
  if (token.kind === 'bootstrap') {
    if (token.usedBy !== publicKeyHash) return refuse('token_used', { claimed })
    if ((token.usedAt ?? 0) < subtractSeconds(enrolledAt, SAME_KEY_RETRY))
      return refuse('token_retry_over', { claimed })
  }
  if (enrollment === null) throw new Error('an admitted caller was not recorded')
  return enrollment.endedAt === null ? ok(enrollment) : refuse('enrollment_ended', { claimed })
}

/**
 * Signs what is on record. A repeated try gets the same bytes where D1 has the signature by then, or this isolate kept it:
 * copies of one request may come at once. In another isolate, before D1 has it, the same content is signed once more.
 */
async function signFirst(
  { keptSignatures }: Dependencies,
  { authority, csr }: Issuance,
  leaf: LeafSubject & LeafContent,
  { enrollmentId, signature: stored }: Enrollment,
  facts: Facts,
): Promise<SignedLeaf> {
  const { spki } = csr
  const kept = stored === null ? keptSignatures.get(leaf.serial) : decodeBase64url(stored)
  const signed = await issueCertificate(authority, { ...leaf, spki }, kept)
  if (stored !== null) return { ...leaf, der: signed.der }
  const first = keptSignatures.keep(leaf.serial, signed.signature)
  facts.signed = { enrollmentId, signature: encodeBase64url(first) }
  if (first === signed.signature) return { ...leaf, der: signed.der }
  const { der } = await issueCertificate(authority, { ...leaf, spki }, first)
  return { ...leaf, der }
}
