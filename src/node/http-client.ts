// One HTTP request and its whole answer, bounded in time and bytes, and in one line why there is none. Never follows a
// redirect, never reuses a connection.

import { once } from 'node:events'
import { request as httpRequest, type IncomingMessage } from 'node:http'
import { request as httpsRequest } from 'node:https'
import { readUpTo } from '../protocol/bytes.ts'
import { err, ok, type Result } from '../protocol/result.ts'
import { agentFor, causeOf, isUnknownCa, ProxyError, untrusted } from './proxy-agent.ts'
import type { ProxyRules } from './proxy-rules.ts'

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
    const request = (url.protocol === 'http:' ? httpRequest : httpsRequest)(url, {
      method,
      agent: agentFor(url, { rules: network.rules, roots: network.extraRoots(), signal }),
      signal,
      headers: { ...headers, 'content-length': Buffer.byteLength(body), 'accept-encoding': 'identity' },
    })
    // Those before the answer reject `once`, those within it the reading; what comes still later is nobody's.
    request.on('error', () => {})
    request.end(body)
    const [response]: IncomingMessage[] = await once(request, 'response')
    const whole = await readUpTo(response ?? null, limit)
    if (whole === null) return err(`${url.host}: the answer is over ${limit / 1024} KiB`)
    const header = (name: string) => response?.headers[name]?.toString()
    return ok({ status: response?.statusCode ?? 0, body: whole, header })
  } catch (error) {
    if (over.aborted && !(error instanceof ProxyError)) return err(`no answer within ${timeout / 1000} s`)
    return err(failureText(error, url, network))
  }
}

/** A network error in one line that names the hop; the hosts are ours to name, the rest is Node's own wording. */
export function failureText(error: unknown, url: URL, { rootsVariable }: Pick<Network, 'rootsVariable'>): string {
  if (!(error instanceof Error)) return `no connection to ${url.host}`
  const advice = `: if the CA is yours, set ${rootsVariable} to its certificate`
  if (isUnknownCa(error)) return `the certificate of ${url.host} ${untrusted(error)}${advice}`
  return `${url.host}: ${causeOf(error)}${error instanceof ProxyError && error.unknownCa ? advice : ''}`
}
