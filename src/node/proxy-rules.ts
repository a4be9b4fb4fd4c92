// Decides by curl's rules which proxy of the environment a connection goes through. No I/O.

import { BlockList, isIP, isIPv6 } from 'node:net'
import { err, ok, type Result } from '../protocol/result.ts'

export interface HttpProxy {
  /** The variable that names it. Messages name this in place of its value, which may hold a password. */
  readonly variable: string
  readonly scheme: 'http' | 'https'
  /** Without brackets or trailing dot. */
  readonly host: string
  readonly port: number
  /** The `Proxy-Authorization` that its user name and password make; null without any. */
  readonly authorization: string | null
}

interface Exception {
  /** Null: any. */
  readonly port: number | null
  readonly covers: (host: string) => boolean
}

export interface ProxyRules {
  readonly proxy: HttpProxy | null
  readonly except: readonly Exception[]
}

export const DIRECT: ProxyRules = { proxy: null, except: [] }

/** curl's order; an upper-case variable serves where the lower-case one is blank. */
const PROXY_VARIABLES = ['https_proxy', 'HTTPS_PROXY', 'all_proxy', 'ALL_PROXY']
const EXCEPTION_VARIABLES = ['no_proxy', 'NO_PROXY']

/** The rules for everything that leaves by TLS. The error names the variable and quotes nothing of it. */
export function proxyRules(env: NodeJS.ProcessEnv): Result<ProxyRules, string> {
  const entries = (firstSet(env, EXCEPTION_VARIABLES)?.value ?? '').toLowerCase().split(/[\s,]+/)
  const named = firstSet(env, PROXY_VARIABLES)
  if (named === null || entries.includes('*')) return ok(DIRECT)
  const proxy = parseProxy(named.value, named.name)
  if (proxy !== null) return ok({ proxy, except: entries.filter((entry) => entry !== '').map(parseException) })
  return err(`${named.name} is not the URL of an HTTP proxy, such as http://proxy.example:3128`)
}

function firstSet(env: NodeJS.ProcessEnv, names: readonly string[]) {
  for (const name of names) {
    const value = (env[name] ?? '').trim()
    if (value !== '') return { name, value }
  }
  return null
}

/**
 * Takes the user name and the password out before the URL class sees the text: it would take a backslash
 * (`DOMAIN\user`) for a slash and refuse or rewrite what curl sends as it stands.
 */
function parseProxy(text: string, variable: string): HttpProxy | null {
  const [, named = 'http', rest = ''] = /^(?:([a-z][a-z0-9+.-]*):\/\/)?(.*)$/is.exec(text) ?? []
  const scheme = named.toLowerCase()
  if (scheme !== 'http' && scheme !== 'https') return null
  // A path is most likely the rest of a password with a slash in it.
  const [, authority = '', path = ''] = /^([^/?#]*)(.*)$/s.exec(rest) ?? []
  const at = authority.lastIndexOf('@')
  const origin = authority.slice(at + 1)
  const url = /[\s\\]/.test(origin) || !['', '/'].includes(path) ? null : URL.parse(`${scheme}://${origin}/`)
  // Nobody listens on port 0.
  if (url === null || url.port === '0') return null
  return {
    variable,
    scheme,
    host: bareHost(url.hostname),
    port: Number(url.port) || (scheme === 'https' ? 443 : 80),
    authorization: at < 0 ? null : basicAuthorization(authority.slice(0, at)),
  }
}

/** RFC 7617, the user name ending at the first colon. */
function basicAuthorization(credentials: string): string {
  const colon = credentials.includes(':') ? credentials : `${credentials}:`
  return `Basic ${percentDecoded(colon).toString('base64')}`
}

/** As curl decodes: what is no percent code stands for itself, and the bytes need not be UTF-8. */
function percentDecoded(text: string): Buffer {
  const bytes = Buffer.from(text).toString('latin1')
  const decoded = bytes.replace(/%([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
  return Buffer.from(decoded, 'latin1')
}

/** A host name with all below it, an address, or a range of them (CIDR), each with an optional port. */
function parseException(entry: string): Exception {
  const [, named, port] = (isIPv6(withoutBits(entry)) ? null : /^(.*):(\d{1,5})$/.exec(entry)) ?? []
  return {
    port: port === undefined ? null : Number(port),
    covers: coverageOf((named ?? entry).replaceAll(/[[\]]/g, '')),
  }
}

function coverageOf(name: string): (host: string) => boolean {
  const address = withoutBits(name)
  if (isIP(address) !== 0) {
    const block = blockOf(address, name.slice(address.length + 1))
    return (host) => isIP(host) !== 0 && block.check(host, familyOf(host))
  }
  const suffix = bareHost(name.replace(/^\*?\./, ''))
  return (host) => isIP(host) === 0 && (host === suffix || host.endsWith(`.${suffix}`))
}

/** Covers nothing where `bits` is no number of bits, as in curl. */
function blockOf(address: string, bits: string): BlockList {
  const block = new BlockList()
  const most = isIPv6(address) ? 128 : 32
  if (bits === '') block.addAddress(address, familyOf(address))
  else if (/^\d{1,3}$/.test(bits) && Number(bits) <= most) block.addSubnet(address, Number(bits), familyOf(address))
  return block
}

const withoutBits = (name: string): string => name.split('/', 1)[0] ?? ''
const familyOf = (address: string) => (isIPv6(address) ? 'ipv6' : 'ipv4')

/** The proxy for a connection; null: none. */
export function proxyFor(hostname: string, port: number, { proxy, except }: ProxyRules): HttpProxy | null {
  const host = bareHost(hostname)
  if (proxy === null || isLoopback(host)) return null
  return except.some((one) => (one.port === null || one.port === port) && one.covers(host)) ? null : proxy
}

const LOOPBACK = new BlockList()
LOOPBACK.addSubnet('127.0.0.0', 8, 'ipv4')
LOOPBACK.addAddress('::1', 'ipv6')

/** Whether the name or address means this machine: never asked through a proxy, and all that plain http may go to. */
export function isLoopback(hostname: string): boolean {
  const host = bareHost(hostname)
  if (isIP(host) !== 0) return LOOPBACK.check(host, familyOf(host))
  return host === 'localhost' || host.endsWith('.localhost')
}

/** As names and addresses are compared: lower case, no brackets, no trailing dot. */
export const bareHost = (hostname: string): string =>
  hostname
    .toLowerCase()
    .replace(/^\[(.*)\]$/, '$1')
    .replace(/\.$/, '')

/** The host and port of a URL as a request names them: a trailing dot is for the look-up alone. */
export function authorityOf({ hostname, port }: URL): string {
  const host = hostname.endsWith('.') ? hostname.slice(0, -1) : hostname
  return port === '' ? host : `${host}:${port}`
}
