// Sends a POST to the control plane, bounded in time and bytes, and says how a request to it failed. Never follows a
// redirect, never reuses a connection.

import { request as httpRequest } from 'node:http'
import { request as httpsRequest } from 'node:https'
import { err, ok, type Result } from '../../protocol/result.ts'
import { isObject, type JsonObject, readJson } from '../../protocol/strict-json.ts'
import type { Milliseconds } from '../../protocol/time.ts'
import { sanitized } from '../log.ts'
import { connector, type Network } from './connection.ts'
import { tlsContext } from './tls.ts'

export interface HttpAnswer {
  readonly status: number
  readonly body: Uint8Array
  /** Headers by lower-case name. */
  readonly header: (name: string) => string | undefined
}

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

/** `known`: of the answer, where there was one. */
export const requestFailed = (
  why: string,
  known: Partial<RequestFailure> = {},
): { readonly ok: false; readonly error: RequestFailure } =>
  err({ status: null, problem: null, retryAfter: null, ...known, why })

/** One attempt, from looking up the name to the last byte of the body, in milliseconds. */
export const ATTEMPT_TIMEOUT = 10_000
/** An enrollment's answer is under 8 KiB; a trust bundle in the middle of a rotation has a few roots. */
const ANSWER_BYTES = 256 * 1024

/** A POST of JSON; any whole answer is one, whatever its status. Never rejects. */
export type Post = (url: URL, body: string, signal: AbortSignal) => Promise<RequestResult<HttpAnswer>>

/** `timeout`: of one attempt, in milliseconds. */
export function poster(network: Network, timeout = ATTEMPT_TIMEOUT): Post {
  const exchange = (url: URL, body: string, end: AbortSignal): Promise<HttpAnswer> =>
    new Promise((resolve, reject) => {
      const request = (url.protocol === 'http:' ? httpRequest : httpsRequest)(url, {
        method: 'POST',
        createConnection: connector(url, network, tlsContext(network.extraRoots, null), end),
        signal: end,
        headers: {
          'content-type': 'application/json',
          'content-length': Buffer.byteLength(body),
          accept: 'application/json, application/problem+json',
          'accept-encoding': 'identity',
          'user-agent': 'muster-runner',
        },
      })
      request.on('error', reject)
      request.on('response', (response) => {
        const chunks: Buffer[] = []
        let size = 0
        response.on('data', (chunk: Buffer) => {
          size += chunk.length
          if (size > ANSWER_BYTES) request.destroy(new Error(`the answer is over ${ANSWER_BYTES / 1024} KiB`))
          else chunks.push(chunk)
        })
        response.on('error', reject)
        response.on('end', () => {
          resolve({
            status: response.statusCode ?? 0,
            body: Buffer.concat(chunks),
            header: (name) => response.headers[name]?.toString(),
          })
        })
      })
      request.end(body)
    })
  return async (url, body, signal) => {
    const limit = AbortSignal.timeout(timeout)
    try {
      return ok(await exchange(url, body, AbortSignal.any([signal, limit])))
    } catch (error) {
      return requestFailed(limit.aborted ? `no answer within ${timeout / 1000} s` : failureText(error, url))
    }
  }
}

/** The JSON object of an answer, or null. We asked for no encoding: a body that claims one was touched on its way. */
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

const UNKNOWN_CA = [
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'DEPTH_ZERO_SELF_SIGNED_CERT',
]

/** A network error in one line; the host is ours to name, the rest is Node's own wording. */
export function failureText(error: unknown, url: URL): string {
  if (!(error instanceof Error)) return `no connection to ${url.host}`
  const code = 'code' in error && typeof error.code === 'string' ? error.code : ''
  if (UNKNOWN_CA.includes(code)) {
    return `the certificate of ${url.host} is not from a CA that this machine trusts (${code}): if the CA is yours, set RUNNER_CA_PEM to its certificate`
  }
  // A name with both kinds of address fails with one error for each.
  const { message } = error instanceof AggregateError ? { message: code } : error
  return `${url.host}: ${message === '' ? code : sanitized(message)}`
}
