// Verifies the certificates that runners present at a renewal or a connection: issuer, signature, subject, times.

import { type Bytes, equalBytes, hex, sha256Hex } from '../../protocol/bytes.ts'
import type { Leaf, VerifiedLeaf } from '../../protocol/leaf.ts'
import { CERTIFICATE_BYTES, CLOCK_LEEWAY, PRESENTED_CERTIFICATES, RENEWAL_GRACE } from '../../protocol/limits.ts'
import { parsePem } from '../../protocol/pem.ts'
import { type Outcome, type Refusal, refuse } from '../../protocol/refusals.ts'
import { ok } from '../../protocol/result.ts'
import { addSeconds, type EpochSeconds, subtractSeconds } from '../../protocol/time.ts'
import type { Authority } from './authority.ts'
import { readCertificate } from './certificate.ts'
import { importP256, p256PointOf, verifyP256 } from './public-key.ts'
import { subjectOf } from './subject.ts'

/**
 * Verifies a presented leaf: signed by an accepted issuing certificate's key, of an accepted trust domain, with the
 * usages of a runner. The two functions below judge its times.
 */
export async function verifyPresented(
  authority: Authority,
  trustDomains: readonly string[],
  der: Bytes,
): Promise<Outcome<VerifiedLeaf>> {
  const certificate = readCertificate(der)
  const subject = certificate && subjectOf(certificate)
  const point = certificate && p256PointOf(certificate.spki)
  if (certificate === null || subject === null || point === null) return refuse('certificate_invalid')
  const { trustDomain, ...named } = subject
  if (!trustDomains.includes(trustDomain)) return refuse('certificate_invalid')

  // Names select candidates, and the signature decides: any CA can copy names, serials and key identifiers.
  for (const issuer of authority.accepted) {
    if (!equalBytes(certificate.issuer, issuer.certificate.subject)) continue
    if (!(await issuer.verifier.verify(certificate))) continue
    const key = await importP256(point)
    if (key === null) return refuse('certificate_invalid')
    const leaf: Leaf = {
      ...named,
      serial: hex(certificate.serial),
      publicKeyHash: await sha256Hex(certificate.spki),
      notBefore: certificate.notBefore,
      notAfter: certificate.notAfter,
      issuer: hex(issuer.keyIdentifier),
    }
    return ok({
      leaf,
      der,
      issuerNotAfter: issuer.certificate.notAfter,
      hasSigned: (signature, message) => verifyP256(key, signature, message),
    })
  }
  return refuse('certificate_invalid')
}

/** The leaf (DER) of a PEM text: its first block. Null where the text is not a list of certificates. */
export function presentedDer(pem: string): Bytes | null {
  if (pem.length > CERTIFICATE_BYTES * PRESENTED_CERTIFICATES) return null
  const blocks = parsePem(pem, PRESENTED_CERTIFICATES)
  if (!blocks.ok || blocks.value.some(({ label }) => label !== 'CERTIFICATE')) return null
  return blocks.value[0]?.bytes ?? null
}

interface Times extends Pick<VerifiedLeaf, 'issuerNotAfter'> {
  readonly leaf: Pick<Leaf, 'notBefore' | 'notAfter'>
}

/** Why a verified certificate may not be renewed now, or null. It may until 360 s after its end (grace and leeway). */
export function renewalRefusal({ leaf, issuerNotAfter }: Times, now: EpochSeconds): Refusal | null {
  if (isTooEarly(leaf, now) || now > issuerNotAfter) return { reason: 'certificate_invalid' }
  const end = addSeconds(addSeconds(leaf.notAfter, RENEWAL_GRACE), CLOCK_LEEWAY)
  return now > end ? { reason: 'renewal_window' } : null
}

/** Why a verified certificate may not open a connection now, or null. It may until its end. */
export function connectionRefusal({ leaf, issuerNotAfter }: Times, now: EpochSeconds): Refusal | null {
  const current = !isTooEarly(leaf, now) && now <= leaf.notAfter && now <= issuerNotAfter
  return current ? null : { reason: 'certificate_expired' }
}

const isTooEarly = ({ notBefore }: Times['leaf'], now: EpochSeconds): boolean =>
  now < subtractSeconds(notBefore, CLOCK_LEEWAY)
