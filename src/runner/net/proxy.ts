// Which proxy the environment names for a URL: HTTPS_PROXY and NO_PROXY, upper or lower case, as curl reads them.

import { isLoopback } from '../environment/settings.ts'

export interface ProxySettings {
  readonly proxy: URL | null
  /** Host names, suffixes and `*`, each with an optional port. */
  readonly except: readonly string[]
}

export const NO_PROXY_AT_ALL: ProxySettings = { proxy: null, except: [] }

/** Reads the settings; a fault names the variable and quotes nothing: the URL may hold a password. */
export function readProxySettings(env: NodeJS.ProcessEnv): ProxySettings | { readonly fault: string } {
  const name = ['https_proxy', 'HTTPS_PROXY'].find((name) => (env[name] ?? '').trim() !== '')
  const except = (env.no_proxy ?? env.NO_PROXY ?? '').toLowerCase().split(/[\s,]+/)
  if (name === undefined) return NO_PROXY_AT_ALL
  const text = (env[name] ?? '').trim()
  const proxy = URL.parse(text.includes('://') ? text : `http://${text}`)
  if (proxy === null || (proxy.protocol !== 'http:' && proxy.protocol !== 'https:')) {
    return { fault: `${name} is not the URL of an HTTP proxy, such as http://proxy.example:3128` }
  }
  return { proxy, except: except.filter((entry) => entry !== '') }
}

/** The proxy for a URL; none for this machine itself. */
export function proxyFor(url: URL, { proxy, except }: ProxySettings): URL | null {
  if (proxy === null || isLoopback(url.hostname)) return null
  return except.some((entry) => covers(entry, url)) ? null : proxy
}

function covers(entry: string, url: URL): boolean {
  if (entry === '*') return true
  const host = bare(url.hostname)
  const port = url.port || (url.protocol === 'http:' || url.protocol === 'ws:' ? '80' : '443')
  const suffix = (name: string): string => bare(name.startsWith('*.') ? name.slice(2) : name)
  const matches = (name: string): boolean => host === suffix(name) || host.endsWith(`.${suffix(name)}`)
  const colon = entry.lastIndexOf(':')
  // An IPv6 address has colons of its own; with a port it stands in brackets.
  const withPort = colon > 0 && (entry.indexOf(':') === colon || entry[colon - 1] === ']')
  return withPort ? entry.slice(colon + 1) === port && matches(entry.slice(0, colon)) : matches(entry)
}

/** Without the brackets of an IPv6 address and without a leading dot. */
const bare = (host: string): string => (host.startsWith('[') ? host.slice(1, -1) : host).replace(/^\./, '')
