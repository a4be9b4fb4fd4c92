// What comes back from POST /api/enroll: a certificate that is checked before it is kept, a refusal of ours, or neither.
// Only a problem document with a code of ours is a verdict; a proxy's page never is. No I/O.

import { type KeyObject, X509Certificate } from 'node:crypto'
import type { EnrollAnswer } from '../../protocol/enroll.ts'
import type { RefusalCode } from '../../protocol/refusals.ts'
import { isObject, type JsonObject, readJson } from '../../protocol/strict-json.ts'
import {
  type EpochMilliseconds,
  type EpochSeconds,
  epochSeconds,
  type Milliseconds,
  milliseconds,
} from '../../protocol/time.ts'
import { certificatesOf, type Identity, readIdentity } from '../identity/identity.ts'
import { told } from '../log.ts'
import type { HttpAnswer } from '../net/http.ts'
import { parseRetryAfter } from './backoff.ts'

/** What a refusal means for the runner. */
export type Verdict = 'credential' | 'window' | 'reattest' | 'banned' | 'protocol' | 'later'

const VERDICTS: Readonly<Record<RefusalCode, Verdict>> = {
  attestation_invalid: 'credential',
  renewal_window_passed: 'window',
  reattestation_required: 'reattest',
  banned: 'banned',
  request_malformed: 'protocol',
  request_too_large: 'protocol',
  media_type_unsupported: 'protocol',
  csr_invalid: 'protocol',
  nonce_mismatch: 'protocol',
  not_found: 'protocol',
  rate_limited: 'later',
  keys_unavailable: 'later',
  upstream_unavailable: 'later',
  not_configured: 'later',
  internal: 'later',
}

/** A refusal of ours, its texts safe to log. */
export interface Refused {
  readonly code: string
  readonly detail: string | undefined
  readonly requestId: string | undefined
}

export type Reply =
  | { readonly type: 'identity'; readonly identity: Identity; readonly serverTime: EpochSeconds }
  | { readonly type: 'refused'; readonly verdict: Exclude<Verdict, 'later'>; readonly refused: Refused }
  /** No verdict: to be tried again with the same key. */
  | {
      readonly type: 'unavailable'
      readonly why: string
      readonly retryAfter: Milliseconds | null
      readonly refused?: Refused
    }

/** What an answer must agree with. */
export interface Expected {
  readonly key: KeyObject
  /** The identity that is renewed; null at an enrollment. */
  readonly renews: Identity | null
}

export function readAnswer(answer: HttpAnswer, expected: Expected, now: EpochMilliseconds): Reply {
  const retryAfter = parseRetryAfter(answer.header('retry-after'), now)
  const none = (why: string) => ({ type: 'unavailable', why, retryAfter }) as const
  const body = readBody(answer)
  if (answer.status === 200) {
    if (body === null) return none('the answer is not JSON: something between here and the control plane answered')
    const read = readEnrollAnswer(body, expected)
    return 'fault' in read ? none(`the answer was not kept: ${read.fault}`) : { type: 'identity', ...read }
  }
  const verdict = verdictOf(body?.code)
  if (answer.status < 400 || body === null || verdict === null) {
    return none(`HTTP ${answer.status} without a code of the control plane`)
  }
  const refused = { code: String(body.code), detail: told(body.detail), requestId: told(body.requestId) }
  if (verdict === 'later') return { ...none(`HTTP ${answer.status} ${refused.code}`), refused }
  return { type: 'refused', verdict, refused }
}

const verdictOf = (code: unknown): Verdict | null =>
  typeof code === 'string' && Object.hasOwn(VERDICTS, code) ? VERDICTS[code as RefusalCode] : null

/** By how much the server's clock is ahead of ours, from an answer of ours or else from the Date header. */
export function skewOf(answer: HttpAnswer, now: EpochMilliseconds): Milliseconds | null {
  const time = readBody(answer)?.serverTime ?? answer.header('date')
  const at = typeof time === 'string' ? Date.parse(time) : Number.NaN
  return Number.isNaN(at) ? null : milliseconds(at - now)
}

function readBody(answer: HttpAnswer): JsonObject | null {
  // We asked for no encoding: a body that claims one was touched on its way.
  if ((answer.header('content-encoding') ?? 'identity') !== 'identity') return null
  const reading = readJson(answer.body)
  return reading.ok && isObject(reading.value) ? reading.value : null
}

type ReadAnswer = { readonly identity: Identity; readonly serverTime: EpochSeconds } | { readonly fault: string }

function readEnrollAnswer(body: JsonObject, { key, renews }: Expected): ReadAnswer {
  const answer = parseEnrollAnswer(body)
  if (answer === null) return { fault: 'it has not the shape of version 1' }
  const { certificate, chain, trustBundle, runnerId } = answer
  const identity = readIdentity({ certificate, chain, trustBundle, runnerId, key })
  if ('fault' in identity) return identity
  const serverTime = epochSeconds(Date.parse(answer.serverTime) / 1000)
  const fault = disagreement(answer, identity) ?? unfitFor(serverTime, identity) ?? changeOf(renews, identity)
  return fault === null ? { identity, serverTime } : { fault }
}

const TEXTS = ['certificate', 'chain', 'trustBundle', 'spiffeId', 'tenant', 'enrollmentId', 'serverTime'] as const

/** Fields that a newer control plane adds are read past. */
function parseEnrollAnswer(body: JsonObject): EnrollAnswer | null {
  const { version, runnerId } = body
  if (version !== 1 || (runnerId !== null && typeof runnerId !== 'string')) return null
  if (TEXTS.some((name) => typeof body[name] !== 'string')) return null
  // Every field that is used was held against its type.
  return body as unknown as EnrollAnswer
}

/** The answer's words against the certificate's. */
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

function unfitFor(serverTime: EpochSeconds, identity: Identity): string | null {
  if (!(identity.notBefore <= serverTime && serverTime < identity.notAfter)) return 'the certificate is not current'
  return leadsToBundle(identity) ? null : 'the certificate does not lead to trustBundle'
}

function changeOf(renewed: Identity | null, identity: Identity): string | null {
  if (renewed === null) return null
  const kept = ['tenant', 'organizationalUnit', 'enrollmentId'] as const
  const changed = kept.find((name) => renewed[name] !== identity[name])
  return changed === undefined ? null : `the renewal changed ${changed}`
}

const MOST_ISSUERS = 4

/** Each certificate signed by the next, the last of them by one of the bundle. */
function leadsToBundle({ certificate, chain, trustBundle }: Identity): boolean {
  const roots = certificatesOf(trustBundle) ?? []
  const between = certificatesOf(chain) ?? []
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
export const lifeLeft = (identity: Identity, serverTime: EpochSeconds): Milliseconds =>
  milliseconds((identity.notAfter - serverTime) * 1000)
