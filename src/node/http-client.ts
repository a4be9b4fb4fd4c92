// One HTTP request and its whole answer, bounded in time and bytes, and in one line why there is none. Never follows a
// redirect, never reuses a connection.

import { request as httpRequest } from 'node:http'
import { request as httpsRequest } from 'node:https'
import { printable } from '../protocol/labels.ts'
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
export function exchange(url: URL, network: Network, sent: HttpRequest): Promise<Result<HttpAnswer, string>> {
  const { method, headers, body = '', timeout, limit } = sent
  const over = AbortSignal.timeout(timeout)
  const signal = sent.signal === undefined ? over : AbortSignal.any([sent.signal, over])
  return new Promise((resolve) => {
    const fail = (error: unknown): void =>
      resolve(err(over.aborted ? `no answer within ${timeout / 1000} s` : failureText(error, url, network)))
    const request = (url.protocol === 'http:' ? httpRequest : httpsRequest)(url, {
      method,
      agent: agentFor(url, { rules: network.rules, roots: network.extraRoots(), signal }),
      signal,
      headers: { ...headers, 'content-length': Buffer.byteLength(body), 'accept-encoding': 'identity' },
    })
    request.on('error', fail)
    request.on('response', (response) => {
      const chunks: Buffer[] = []
      let size = 0
      response.on('data', (chunk: Buffer) => {
        size += chunk.length
        if (size <= limit) return chunks.push(chunk)
        // The last chunk would end the answer all the same.
        fail(new Error(`the answer is over ${limit / 1024} KiB`))
        return request.destroy()
      })
      response.on('error', fail)
      response.on('end', () => {
        const header = (name: string) => response.headers[name]?.toString()
        resolve(ok({ status: response.statusCode ?? 0, body: Buffer.concat(chunks), header }))
      })
    })
    request.end(body)
  })
}

/** The names in a certificate are its owner's to choose, and there may be many. */
const CAUSE_CHARACTERS = 300

/** A network error in one line that names the hop; the hosts are ours to name, the rest is Node's own wording. */
export function failureText(error: unknown, url: URL, { rootsVariable }: Pick<Network, 'rootsVariable'>): string {
  if (!(error instanceof Error)) return `no connection to ${url.host}`
  const advice = `: if the CA is yours, set ${rootsVariable} to its certificate`
  if (isUnknownCa(error)) return `the certificate of ${url.host} ${untrusted(error)}${advice}`
  const cause = printable(causeOf(error).slice(0, CAUSE_CHARACTERS))
  return `${url.host}: ${cause}${error instanceof ProxyError && error.unknownCa ? advice : ''}`
}
