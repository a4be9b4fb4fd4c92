// Reads the response of POST /api/enroll: a certificate, a refusal of the control plane, or neither. Only a problem
// document with a known code is a verdict; a proxy's page never is. No I/O.

import type { HttpAnswer } from '../../node/http-client.ts'
import type { RefusalCode } from '../../protocol/refusals.ts'
import { err, type Result } from '../../protocol/result.ts'
import { type EpochMilliseconds, type EpochSeconds, epochMilliseconds, toEpochSeconds } from '../../protocol/time.ts'
import { parseRetryAfter } from '../net/backoff.ts'
import { jsonOf, type Problem, parseProblem, type RequestFailure, requestFailed } from '../net/http.ts'
import { type Enrolled, type Expected, readEnrolled } from './enrolled.ts'

/** What a failure means for the runner. `later`: nothing, and the runner tries again with the same key. */
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
  /** By the control plane's clock, where it was the control plane that answered. */
  readonly serverTime: EpochSeconds | null
}

export function readEnrollResponse(
  answer: HttpAnswer,
  expected: Expected,
  now: EpochMilliseconds,
): Result<Enrolled, EnrollFailure> {
  const { status } = answer
  const retryAfter = parseRetryAfter(answer.header('retry-after'), now)
  const failed = (why: string, verdict: Verdict = 'later', problem: Problem | null = null) => {
    const time = problem === null ? null : timeOf(answer)
    const serverTime = time === null ? null : toEpochSeconds(time)
    return err({ ...requestFailed(why, { status, problem, retryAfter }).error, verdict, serverTime })
  }
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

/**
 * The time of an answer: `serverTime`, or else its Date header, whoever answered. Null where neither has the form of its
 * specification (RFC 3339 in UTC, RFC 9110 §5.6.7), since other forms can be read as another year or time zone.
 */
export function timeOf(answer: HttpAnswer): EpochMilliseconds | null {
  const told = jsonOf(answer)?.serverTime
  const date = answer.header('date') ?? ''
  const text = typeof told === 'string' && told.length <= 30 && told.endsWith('Z') ? told : date
  const at = text === told || date.endsWith(' GMT') ? Date.parse(text) : Number.NaN
  return at >= 0 && at < END_OF_YEAR_9999 ? epochMilliseconds(at) : null
}
const END_OF_YEAR_9999 = Date.UTC(10_000, 0)
