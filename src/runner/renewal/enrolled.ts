// Checks the certificate of an enrollment or renewal before it is kept: against the request, the other fields of the
// answer, the trust bundle and the identity that is renewed. No I/O.

import { type KeyObject, X509Certificate } from 'node:crypto'
import { ENROLL_ANSWER, type EnrollAnswer } from '../../protocol/enroll.ts'
import { err, ok, type Result } from '../../protocol/result.ts'
import { parseShape } from '../../protocol/shape.ts'
import type { JsonObject } from '../../protocol/strict-json.ts'
import { type EpochSeconds, epochSeconds, type Milliseconds, milliseconds } from '../../protocol/time.ts'
import { type Identity, parseCertificates, readIdentity } from '../identity/identity.ts'

export interface Enrolled {
  readonly identity: Identity
  readonly serverTime: EpochSeconds
}

/** What an answer is checked against. */
export interface Expected {
  readonly key: KeyObject
  /** The identity that is renewed; null at an enrollment. */
  readonly renewed: Identity | null
}

/** The identity of an answer; the error says why it is not kept. Throws for a key that OpenSSL cannot use. */
export function readEnrolled(body: JsonObject, { key, renewed }: Expected): Result<Enrolled, string> {
  const shaped = parseShape(ENROLL_ANSWER, body)
  if (!shaped.ok) return err(`it has not the shape of version 1: ${shaped.error}`)
  const answer = shaped.value
  const { certificate, chain, trustBundle, runnerId } = answer
  const read = readIdentity({ certificate, chain, trustBundle, runnerId, key })
  if (!read.ok) return read
  const identity = read.value
  const serverTime = epochSeconds(Date.parse(answer.serverTime) / 1000)
  const mistake =
    disagreement(answer, identity) ?? invalidAt(serverTime, identity) ?? forbiddenChange(renewed, identity)
  return mistake === null ? ok({ identity, serverTime }) : err(mistake)
}

/** The field of the answer that differs from the certificate, or null. */
function disagreement(answer: EnrollAnswer, identity: Identity): string | null {
  const { tenant, organizationalUnit, enrollmentId } = identity
  const subject = `O=${tenant}\nOU=${organizationalUnit}\nCN=${enrollmentId}`
  if (answer.spiffeId !== identity.spiffeId) return 'spiffeId is not that of the certificate'
  if (answer.tenant !== tenant) return 'tenant is not that of the certificate'
  if (answer.enrollmentId !== enrollmentId) return 'enrollmentId is not that of the certificate'
  if (new X509Certificate(identity.certificate).subject !== subject)
    return 'the certificate has a subject of another form'
  return null
}

function invalidAt(serverTime: EpochSeconds, identity: Identity): string | null {
  if (!(identity.notBefore <= serverTime && serverTime < identity.notAfter)) return 'the certificate is not current'
  return leadsToBundle(identity) ? null : 'the certificate does not lead to trustBundle'
}

function forbiddenChange(renewed: Identity | null, identity: Identity): string | null {
  if (renewed === null) return null
  const kept = ['tenant', 'organizationalUnit', 'enrollmentId'] as const
  const changed = kept.find((name) => renewed[name] !== identity[name])
  return changed === undefined ? null : `the renewal changed ${changed}`
}

const MOST_ISSUERS = 4

/** Each certificate signed by the next, the last of them by one of the bundle. */
function leadsToBundle({ certificate, chain, trustBundle }: Identity): boolean {
  const roots = parseCertificates(trustBundle) ?? []
  const between = parseCertificates(chain) ?? []
  const issuerAmong = (of: X509Certificate, all: readonly X509Certificate[]): X509Certificate | undefined =>
    all.find((one) => one.ca && of.checkIssued(one) && of.verify(one.publicKey))
  let current: X509Certificate | undefined = new X509Certificate(certificate)
  for (let step = 0; current !== undefined && step < MOST_ISSUERS; step++) {
    if (issuerAmong(current, roots) !== undefined) return true
    current = issuerAmong(current, between)
  }
  return false
}

/** When the certificate ends by the server's clock, from `serverTime` on. */
export const lifeFrom = (identity: Identity, serverTime: EpochSeconds): Milliseconds =>
  milliseconds((identity.notAfter - serverTime) * 1000)
