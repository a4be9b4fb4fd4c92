// One POST to the control plane, bounded in time and bytes. Never follows a redirect, never reuses a connection.

import { request as httpRequest } from 'node:http'
import { request as httpsRequest } from 'node:https'
import { told } from '../log.ts'
import { connector, type Network, tlsContext } from './connection.ts'

export interface HttpAnswer {
  readonly status: number
  readonly body: Uint8Array
  /** Headers by lower-case name. */
  readonly header: (name: string) => string | undefined
}

/** One attempt, from looking up the name to the last byte of the body. */
export const ATTEMPT_TIMEOUT = 10_000
/** An enrollment's answer is under 8 KiB; a trust bundle in the middle of a rotation has a few roots. */
const ANSWER_BYTES = 256 * 1024

/** A POST of JSON. Rejects where there is no whole answer, with what is wrong in one line. */
export type Post = (url: URL, body: string, signal: AbortSignal) => Promise<HttpAnswer>

export function poster(network: Network, timeout = ATTEMPT_TIMEOUT): Post {
  return (url, body, signal) =>
    new Promise((resolve, reject) => {
      const limit = AbortSignal.timeout(timeout)
      const end = AbortSignal.any([signal, limit])
      const fail = (error: unknown): void =>
        reject(new Error(limit.aborted ? `no answer within ${timeout / 1000} s` : failureText(error, url)))
      const request = (url.protocol === 'http:' ? httpRequest : httpsRequest)(url, {
        method: 'POST',
        createConnection: connector(url, network, tlsContext(network, null), end),
        signal: end,
        headers: {
          'content-type': 'application/json',
          'content-length': Buffer.byteLength(body),
          accept: 'application/json, application/problem+json',
          'accept-encoding': 'identity',
          'user-agent': 'muster-runner',
        },
      })
      request.on('error', fail)
      request.on('response', (response) => {
        const chunks: Buffer[] = []
        let size = 0
        response.on('data', (chunk: Buffer) => {
          size += chunk.length
          if (size > ANSWER_BYTES) request.destroy(new Error(`the answer is over ${ANSWER_BYTES / 1024} KiB`))
          else chunks.push(chunk)
        })
        response.on('error', fail)
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
  return `${url.host}: ${message === '' ? code : told(message)}`
}
