// Sends a POST to the control plane, and says how a request to it failed.

import { exchange, type HttpAnswer, type Network } from '../../node/http-client.ts'
import { err, type Result } from '../../protocol/result.ts'
import { isObject, type JsonObject, readJson } from '../../protocol/strict-json.ts'
import type { Milliseconds } from '../../protocol/time.ts'
import { sanitized } from '../environment/log.ts'

/** A problem document of the control plane (RFC 9457), its texts safe to log. */
export interface Problem {
  readonly code: string
  readonly detail: string | undefined
  readonly requestId: string | undefined
}

/** Why a request to the control plane brought nothing. */
export interface RequestFailure {
  /** One line for the log. */
  readonly why: string
  /** Of the HTTP answer; null where there was no whole one. */
  readonly status: number | null
  readonly problem: Problem | null
  /** What the answer asks to wait; null where it asks for nothing. */
  readonly retryAfter: Milliseconds | null
}

export type RequestResult<T> = Result<T, RequestFailure>

/** `known`: what an answer says, where there was one. */
export const requestFailed = (
  why: string,
  known: Partial<RequestFailure> = {},
): { readonly ok: false; readonly error: RequestFailure } =>
  err({ status: null, problem: null, retryAfter: null, ...known, why })

export const USER_AGENT = 'muster-runner'
/** One attempt, from looking up the name to the last byte of the body, in milliseconds. */
export const ATTEMPT_TIMEOUT = 10_000
/** An enrollment's answer is under 8 KiB; a trust bundle in the middle of a rotation has a few roots. */
const ANSWER_BYTES = 256 * 1024

/** A POST of JSON; gives any whole answer, whatever its status. Never rejects. */
export type Post = (url: URL, body: string, signal: AbortSignal) => Promise<RequestResult<HttpAnswer>>

/** `timeout`: of one attempt, in milliseconds. */
export const poster =
  (network: Network, timeout = ATTEMPT_TIMEOUT): Post =>
  async (url, body, signal) => {
    const headers = {
      'content-type': 'application/json',
      accept: 'application/json, application/problem+json',
      'user-agent': USER_AGENT,
    }
    const answer = await exchange(url, network, { method: 'POST', headers, body, timeout, limit: ANSWER_BYTES, signal })
    return answer.ok ? answer : requestFailed(answer.error)
  }

/** The JSON object of an answer, or null. No encoding was asked for: a body that has one was changed on its way. */
export function jsonOf(answer: HttpAnswer): JsonObject | null {
  if ((answer.header('content-encoding') ?? 'identity') !== 'identity') return null
  const reading = readJson(answer.body)
  return reading.ok && isObject(reading.value) ? reading.value : null
}

/** Null where there is no code: then something between here and the control plane answered. */
export function parseProblem(body: JsonObject | null): Problem | null {
  const code = sanitized(body?.code)
  return body === null || code === undefined
    ? null
    : { code, detail: sanitized(body.detail), requestId: sanitized(body.requestId) }
}
