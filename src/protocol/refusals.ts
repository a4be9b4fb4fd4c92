// Refusals as values, and the one switch over their codes that turns a refusal into a problem document (RFC 9457).

import { REASONS, type Reason } from './reasons.ts'
import { err, type Result } from './result.ts'
import { type EpochSeconds, rfc3339, type Seconds, seconds } from './time.ts'

/** What callers get in place of a reason. `answerOf` has one case for each. */
export type RefusalCode = (typeof REASONS)[Reason]

/** Short texts about a request, for operators. */
export type Labels = Readonly<Record<string, string>>

/** The caller gets the problem document of `problemOf`, not the reason. */
export interface Refusal {
  /** For operators. */
  readonly reason: Reason
  /** What is wrong. The caller gets it for codes about the form of a request, never for a failed attestation. */
  readonly detail?: string
  readonly retryAfter?: Seconds
  /** Only for a region outside the allowlist of the trust file. */
  readonly acceptedRegions?: readonly string[]
  /** What the caller claimed and did not prove. */
  readonly claimed?: Labels
}

/** The result of a step of the control plane. */
export type Outcome<T> = Result<T, Refusal>

export const refuse = (
  reason: Reason,
  extra: Omit<Refusal, 'reason'> = {},
): { readonly ok: false; readonly error: Refusal } => err({ reason, ...extra })

/** A problem document. */
export interface Problem {
  readonly type: string
  readonly title: string
  readonly status: number
  readonly detail: string
  readonly code: RefusalCode
  readonly requestId: string
  readonly serverTime: string
  readonly acceptedRegions?: readonly string[]
}

export interface ProblemAnswer {
  readonly problem: Problem
  /** Value of the `Retry-After` header; null for none. */
  readonly retryAfter: Seconds | null
}

/** The same for every failed attestation, so that a prober learns nothing. */
export const ATTESTATION_INVALID = 'the attestation was not accepted'
const RENEWAL_WINDOW_PASSED = 'presented cert expired beyond the renewal grace window'

interface Answer {
  readonly status: number
  readonly title: string
  readonly detail: string
  readonly retryAfter?: Seconds
}

/** What the caller gets. */
export function problemOf(refusal: Refusal, requestId: string, now: EpochSeconds): ProblemAnswer {
  const code = REASONS[refusal.reason]
  const answer = answerOf(code, refusal)
  return {
    problem: {
      type: `urn:muster:${code}`,
      title: answer.title,
      status: answer.status,
      detail: answer.detail,
      code,
      requestId,
      serverTime: rfc3339(now),
      ...(refusal.acceptedRegions === undefined ? {} : { acceptedRegions: refusal.acceptedRegions }),
    },
    retryAfter: answer.retryAfter === undefined ? null : (refusal.retryAfter ?? answer.retryAfter),
  }
}

/** The HTTP status of a refusal. */
export const statusOf = (refusal: Refusal): number => answerOf(REASONS[refusal.reason], refusal).status

function answerOf(code: RefusalCode, refusal: Refusal): Answer {
  const { detail } = refusal
  switch (code) {
    case 'request_malformed':
      return { status: 400, title: 'Request malformed', detail: detail ?? 'the request has the wrong shape' }
    case 'request_too_large':
      return { status: 413, title: 'Request too large', detail: detail ?? 'the request body is over the limit' }
    case 'media_type_unsupported':
      return { status: 415, title: 'Media type unsupported', detail: detail ?? 'send application/json' }
    case 'csr_invalid':
      return { status: 400, title: 'CSR invalid', detail: detail ?? 'the certificate request was not accepted' }
    case 'nonce_mismatch':
      return {
        status: 400,
        title: 'Nonce mismatch',
        detail: detail ?? 'challengeNonce is not bound to the key of the CSR',
      }
    case 'attestation_invalid':
      return { status: 401, title: 'Attestation invalid', detail: regionDetail(refusal) ?? ATTESTATION_INVALID }
    case 'renewal_window_passed':
      return { status: 401, title: 'Renewal window passed', detail: RENEWAL_WINDOW_PASSED }
    case 'reattestation_required':
      return {
        status: 401,
        title: 'Re-attestation required',
        detail: 'the enrollment is older than it may get by renewal: enroll anew with platform evidence',
      }
    case 'banned':
      return { status: 403, title: 'Banned', detail: 'this identity is banned' }
    case 'rate_limited':
      return { status: 429, title: 'Rate limited', detail: 'too many requests', retryAfter: seconds(60) }
    case 'keys_unavailable':
      return {
        status: 503,
        title: 'Keys unavailable',
        detail: 'the key set of the cluster cannot be used at present',
        retryAfter: seconds(10),
      }
    case 'upstream_unavailable':
      return {
        status: 503,
        title: 'Upstream unavailable',
        detail: detail ?? 'a service that decides about the request cannot be reached',
        retryAfter: seconds(5),
      }
    case 'not_configured':
      return { status: 503, title: 'Not configured', detail: detail ?? 'the control plane is not configured' }
    case 'not_found':
      return { status: 404, title: 'Not found', detail: detail ?? 'there is nothing at this address' }
    case 'method_not_allowed':
      return {
        status: 405,
        title: 'Method not allowed',
        detail: detail ?? 'this address is not served with this method',
      }
    case 'internal':
      return { status: 500, title: 'Internal error', detail: 'a bug: quote the request id to the operator' }
  }
}

const regionDetail = (refusal: Refusal): string | undefined =>
  refusal.acceptedRegions && `region not accepted; accepted regions: ${refusal.acceptedRegions.join(', ')}`
