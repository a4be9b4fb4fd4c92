// Sends one HTTP request and reads its whole answer, bounded in time and bytes. Follows no redirect, reuses no
// connection.

import type { ClientRequest, IncomingMessage } from 'node:http'
import { request as httpsRequest } from 'node:https'
import { readUpTo } from '../protocol/bytes.ts'
import { err, ok, type Result } from '../protocol/result.ts'
import { http } from './http-module.ts'
import {
  agentFor,
  causeText,
  isOutsideItsTime,
  isUnknownCa,
  ProxyError,
  timeText,
  untrustedText,
} from './proxy-agent.ts'
import { authorityOf, type ProxyRules } from './proxy-rules.ts'

/** How this process reaches others. */
export interface Network {
  readonly rules: ProxyRules
  /** PEM, trusted beside the system's roots; null: those alone. Asked for each connection. */
  readonly extraRoots: () => string | null
  /** Where the operator names further roots. */
  readonly rootsVariable: string
}

export interface HttpRequest {
  readonly method: 'GET' | 'POST'
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string
  /** Milliseconds from looking up the name to the last byte of the body. */
  readonly timeout: number
  /** The most bytes that the body of the answer may have. */
  readonly limit: number
  readonly signal?: AbortSignal
}

export interface HttpAnswer {
  readonly status: number
  readonly body: Uint8Array
  /** Headers by lower-case name. */
  readonly header: (name: string) => string | undefined
}

/** The error is one line for an operator: which hop failed and how. Never rejects. */
export async function exchange(url: URL, network: Network, sent: HttpRequest): Promise<Result<HttpAnswer, string>> {
  const { method, headers, body = '', timeout, limit } = sent
  const over = AbortSignal.timeout(timeout)
  const signal = sent.signal === undefined ? over : AbortSignal.any([sent.signal, over])
  try {
    const request = (url.protocol === 'http:' ? http.request : httpsRequest)(url, {
      method,
      agent: agentFor(url, { rules: network.rules, roots: network.extraRoots(), signal }),
      signal,
      headers: {
        ...headers,
        host: authorityOf(url),
        'content-length': Buffer.byteLength(body),
        'accept-encoding': 'identity',
      },
    })
    request.end(body)
    const response = await responseTo(request)
    const whole = await readUpTo(response, limit)
    if (whole === null) return err(`${url.host}: the answer is over ${limit / 1024} KiB`)
    const header = (name: string) => response.headers[name]?.toString()
    return ok({ status: response.statusCode ?? 0, body: whole, header })
  } catch (error) {
    if (over.aborted && !(error instanceof ProxyError)) return err(`no answer within ${timeout / 1000} s`)
    return err(failureText(error, url, network))
  }
}

/** Errors within the answer reject the reading of it; later ones are ignored. */
const responseTo = (request: ClientRequest): Promise<IncomingMessage> =>
  new Promise((resolve, reject) => {
    request.on('response', resolve).on('error', reject)
    // An answer that switches protocols ends the request with neither.
    request.on('close', () => reject(new Error('the connection ended without an answer')))
  })

/** Follows a message about a certificate from an unknown CA. */
export const rootsAdvice = (variable: string): string => `: if the CA is yours, set ${variable} to its certificate`

/** A network error in one line that names the hop. */
export function failureText(error: unknown, url: URL, { rootsVariable }: Pick<Network, 'rootsVariable'>): string {
  if (!(error instanceof Error)) return `no connection to ${url.host}`
  const advice = rootsAdvice(rootsVariable)
  if (isUnknownCa(error)) return `the certificate of ${url.host} ${untrustedText(error)}${advice}`
  if (isOutsideItsTime(error)) return `the certificate of ${url.host} ${timeText(error)}`
  return `${url.host}: ${causeText(error)}${error instanceof ProxyError && error.unknownCa ? advice : ''}`
}
