// Reads the response of POST /api/enroll: a certificate, a refusal of the control plane, or neither. Only a problem
// document with a known code is a verdict; a proxy's page never is. No I/O.

import type { HttpAnswer } from '../../node/http-client.ts'
import type { RefusalCode } from '../../protocol/refusals.ts'
import { err, type Result } from '../../protocol/result.ts'
import { type EpochMilliseconds, type Milliseconds, milliseconds } from '../../protocol/time.ts'
import { parseRetryAfter } from '../net/backoff.ts'
import { jsonOf, type Problem, parseProblem, type RequestFailure, requestFailed } from '../net/http.ts'
import { type Enrolled, type Expected, readEnrolled } from './enrolled.ts'

/** What a failure means for the runner; `later`: nothing, it is to be tried again with the same key. */
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
  method_not_allowed: 'protocol',
  rate_limited: 'later',
  keys_unavailable: 'later',
  upstream_unavailable: 'later',
  not_configured: 'later',
  internal: 'later',
}

export interface EnrollFailure extends RequestFailure {
  readonly verdict: Verdict
}

export function readEnrollResponse(
  answer: HttpAnswer,
  expected: Expected,
  now: EpochMilliseconds,
): Result<Enrolled, EnrollFailure> {
  const { status } = answer
  const retryAfter = parseRetryAfter(answer.header('retry-after'), now)
  const failed = (why: string, verdict: Verdict = 'later', problem: Problem | null = null) =>
    err({ ...requestFailed(why, { status, problem, retryAfter }).error, verdict })
  const body = jsonOf(answer)
  if (status === 200) {
    if (body === null) return failed('the answer is not JSON: something between here and the control plane answered')
    const enrolled = readEnrolled(body, expected)
    return enrolled.ok ? enrolled : failed(`the answer was not kept: ${enrolled.error}`)
  }
  const problem = parseProblem(body)
  const verdict = problem === null ? null : verdictOf(problem.code)
  if (status < 400 || problem === null || verdict === null) {
    return failed(`HTTP ${status} without a code of the control plane`)
  }
  return failed(`HTTP ${status} ${problem.code}`, verdict, problem)
}

const isCode = (code: string): code is RefusalCode => Object.hasOwn(VERDICTS, code)

const verdictOf = (code: string): Verdict | null => (isCode(code) ? VERDICTS[code] : null)

/** By how much the server's clock is ahead of ours, from an answer of ours or else from the Date header. */
export function skewOf(answer: HttpAnswer, now: EpochMilliseconds): Milliseconds | null {
  const time = jsonOf(answer)?.serverTime ?? answer.header('date')
  const at = typeof time === 'string' ? Date.parse(time) : Number.NaN
  return Number.isNaN(at) ? null : milliseconds(at - now)
}
