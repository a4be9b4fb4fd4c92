// The HTTPS agent of every request that leaves: it connects directly, or through the proxy that the rules name. Serves
// node:https, ws and the AWS SDK.

import type { Agent, IncomingMessage } from 'node:http'
import { Agent as HttpsAgent, type RequestOptions } from 'node:https'
import { isIP, connect as netConnect } from 'node:net'
import type { Duplex } from 'node:stream'
import tls, { createSecureContext, type SecureContext, connect as tlsConnect } from 'node:tls'
import { printable } from '../protocol/characters.ts'
import { http } from './http-module.ts'
import { bareHost, type HttpProxy, type ProxyRules, proxyFor } from './proxy-rules.ts'

export interface Outgoing {
  readonly rules: ProxyRules
  /** PEM of roots that may have issued the target's or an https proxy's certificate, beside the system's; null: none. */
  readonly roots: string | null
  /** PEM, shown to a target that asks; never to a proxy. */
  readonly client?: { readonly certificate: string; readonly key: string }
  /** Ends the wait for a proxy, whose connection the caller cannot close yet. */
  readonly signal: AbortSignal
}

/** A failure on the way to the proxy or at the proxy. Any other error of a request is about the target. */
export class ProxyError extends Error {
  override readonly name = 'ProxyError'
  /** Whether another root would have helped. */
  readonly unknownCa: boolean

  constructor(proxy: HttpProxy, what: string, unknownCa = false) {
    super(`the proxy ${hostAndPort(proxy.host, proxy.port)} (${proxy.variable}) ${what}`)
    this.unknownCa = unknownCa
  }
}

const UNKNOWN_CA = [
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'DEPTH_ZERO_SELF_SIGNED_CERT',
]

/** Whether a certificate leads to no root that this machine trusts. */
export const isUnknownCa = ({ code = '' }: NodeJS.ErrnoException): boolean => UNKNOWN_CA.includes(code)

/** Replaces Node's wording, which advises options of Node. */
export const untrustedText = ({ code }: NodeJS.ErrnoException): string =>
  `is not from a CA that this machine trusts (${code})`

/** Whether a certificate is not valid at the time that this machine's clock shows. */
export const isOutsideItsTime = ({ code = '' }: NodeJS.ErrnoException): boolean =>
  ['CERT_NOT_YET_VALID', 'CERT_HAS_EXPIRED'].includes(code)

export const timeText = ({ code }: NodeJS.ErrnoException): string =>
  `is not valid by this machine's clock (${code}): look at the clock first`

/** The owner of a certificate chooses the names in it, and there may be many. */
const CAUSE_CHARACTERS = 400

/** Node's own wording, in one printable line. */
export function causeText(error: NodeJS.ErrnoException): string {
  // A name with both kinds of address fails with one error for each, and no message.
  const cause = error.message.trim() || (error.code ?? error.name)
  return printable(cause.slice(0, CAUSE_CHARACTERS))
}

/**
 * For requests to `url`; plain http always goes directly. Throws where OpenSSL does not take a certificate. Never
 * resumes a TLS session, so every verdict on a certificate is fresh.
 */
export function agentFor(url: URL, outgoing: Outgoing): Agent {
  return url.protocol === 'http:' || url.protocol === 'ws:' ? directAgent() : new ProxyAgent(outgoing)
}

/** For plain http to this machine, whatever NODE_USE_ENV_PROXY says. */
export const directAgent = (): Agent => new http.Agent({ proxyEnv: {} })

type Created = (error: Error | null, stream: Duplex) => void

/** Asks the rules at each connection, so one agent serves several hosts. */
export class ProxyAgent extends HttpsAgent {
  readonly #outgoing: Outgoing
  readonly #target: SecureContext

  constructor(outgoing: Outgoing) {
    super({ proxyEnv: {} })
    this.#outgoing = outgoing
    const { roots, client } = outgoing
    this.#target =
      client === undefined
        ? contextFor(roots)
        : createSecureContext({ ...trustOf(roots), cert: client.certificate, key: client.key })
  }

  override createConnection({ host, port }: RequestOptions, created: Created): Duplex | undefined {
    const target = { host: host ?? 'localhost', port: Number(port) || 443 }
    const proxy = proxyFor(target.host, target.port, this.#outgoing.rules)
    const secure = { host: target.host, servername: serverName(target.host), secureContext: this.#target }
    if (proxy === null) return heard(tlsConnect({ ...secure, port: target.port }))
    throughProxy(proxy, target, this.#outgoing).then(
      (socket) => created(null, heard(tlsConnect({ ...secure, socket: heard(socket) }))),
      (error: Error) => created(error, undefined as never),
    )
    return undefined
  }
}

/** An error before the request listens, or after it was given up, would end the process. */
const heard = <T extends Duplex>(socket: T): T => socket.on('error', () => {})

function trustOf(roots: string | null) {
  // Naming roots replaces the built-in ones, so those are named too.
  return { minVersion: 'TLSv1.2', ...(roots !== null && { ca: [...systemRoots(), roots] }) } as const
}

let kept: { readonly roots: string | null; readonly context: SecureContext } | null = null

/** Without a certificate of ours. The last one is kept: each would hold 1 MB of roots that V8 does not know of. */
function contextFor(roots: string | null): SecureContext {
  if (kept?.roots !== roots) kept = { roots, context: createSecureContext(trustOf(roots)) }
  return kept.context
}

/** With those of NODE_EXTRA_CA_CERTS and --use-system-ca, where Node lists them (22.15 and up). */
const systemRoots = (): readonly string[] => tls.getCACertificates?.('default') ?? tls.rootCertificates

/** RFC 6066 §3: neither an address nor a trailing dot is in a server name. */
const serverName = (host: string): string => (isIP(host) === 0 ? bareHost(host) : '')

const hostAndPort = (host: string, port: number): string => `${isIP(host) === 6 ? `[${host}]` : host}:${port}`

/** CONNECT (RFC 9110 §9.3.6). Rejects with a `ProxyError`, also where `signal` aborts. */
function throughProxy(
  proxy: HttpProxy,
  { host, port }: { readonly host: string; readonly port: number },
  { roots, signal }: Outgoing,
): Promise<Duplex> {
  const target = hostAndPort(bareHost(host), port)
  const headers = proxy.authorization === null ? {} : { 'proxy-authorization': proxy.authorization }
  return new Promise((resolve, reject) => {
    let reached = 'cannot be reached'
    const createConnection = (): Duplex => {
      const address = { host: proxy.host, port: proxy.port }
      const secure = proxy.scheme === 'https'
      const socket = secure
        ? tlsConnect({ ...address, servername: serverName(proxy.host), secureContext: contextFor(roots) })
        : netConnect(address)
      const wait = 'does not answer CONNECT'
      socket.once('connect', () => {
        reached = secure ? 'fails in TLS' : wait
      })
      socket.once('secureConnect', () => {
        reached = wait
      })
      return socket
    }
    const request = http.request({
      method: 'CONNECT',
      path: target,
      headers: { host: target, ...headers },
      createConnection,
      signal,
    })
    request.on('connect', ({ statusCode = 0 }: IncomingMessage, socket: Duplex) => {
      if (statusCode >= 200 && statusCode < 300) return resolve(socket)
      socket.destroy()
      const why = statusCode === 407 ? ': it wants a user name and password, or other ones' : ''
      reject(new ProxyError(proxy, `refused CONNECT with ${statusCode}${why}`))
    })
    request.on('error', (error: NodeJS.ErrnoException) => {
      const cause = isUnknownCa(error)
        ? `its certificate ${untrustedText(error)}`
        : isOutsideItsTime(error)
          ? `its certificate ${timeText(error)}`
          : causeText(error)
      reject(new ProxyError(proxy, `${reached}: ${signal.aborted ? 'no answer in time' : cause}`, isUnknownCa(error)))
    })
    request.end()
  })
}
