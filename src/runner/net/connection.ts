// Opens the connections to the control plane, directly or through a proxy.

import { request as httpRequest } from 'node:http'
import { request as httpsRequest } from 'node:https'
import { connect as connectTcp, isIP, type Socket } from 'node:net'
import { connect as connectTls, type SecureContext } from 'node:tls'
import { type ProxySettings, proxyFor } from './proxy.ts'
import type { ExtraRoots } from './tls.ts'

/** How this machine reaches the control plane. */
export interface Network {
  readonly proxies: ProxySettings
  readonly extraRoots: ExtraRoots
}

type Created = (error: Error | null, socket: Socket) => void

/**
 * A `createConnection` for `node:http` and for `ws`. Errors before the socket exists go to the callback, later ones to
 * the socket. `signal` ends the wait for a proxy, whose connection nobody else knows yet.
 */
export function connector(url: URL, network: Network, context: SecureContext, signal: AbortSignal) {
  const plain = url.protocol === 'http:' || url.protocol === 'ws:'
  const host = url.hostname.startsWith('[') ? url.hostname.slice(1, -1) : url.hostname
  const port = Number(url.port || (plain ? 80 : 443))
  // RFC 6066 §3: an address is no server name.
  const servername = isIP(host) ? '' : host
  const proxy = plain ? null : proxyFor(url, network.proxies)
  return (_options: unknown, created: Created): Socket | undefined => {
    if (plain) return connectTcp({ host, port })
    if (proxy === null) return connectTls({ host, port, servername, secureContext: context })
    throughProxy(proxy, `${url.hostname}:${port}`, signal).then(
      (socket) => created(null, connectTls({ socket, host, servername, secureContext: context })),
      (error) => created(error, undefined as never),
    )
    return undefined
  }
}

/** RFC 9110 §9.3.6. */
function throughProxy(proxy: URL, target: string, signal: AbortSignal): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const request = (proxy.protocol === 'https:' ? httpsRequest : httpRequest)({
      host: proxy.hostname.startsWith('[') ? proxy.hostname.slice(1, -1) : proxy.hostname,
      port: proxy.port || (proxy.protocol === 'https:' ? 443 : 80),
      method: 'CONNECT',
      path: target,
      agent: false,
      signal,
      headers: { host: target, ...authorization(proxy) },
    })
    request.on('connect', (response, socket) => {
      if (response.statusCode === 200) resolve(socket)
      else {
        socket.destroy()
        reject(new Error(`the proxy ${proxy.host} answered CONNECT with ${response.statusCode}`))
      }
    })
    request.on('error', reject)
    request.end()
  })
}

function authorization({ username, password }: URL): Record<string, string> {
  if (username === '') return {}
  const credentials = Buffer.from(`${decodeURIComponent(username)}:${decodeURIComponent(password)}`)
  return { 'proxy-authorization': `Basic ${credentials.toString('base64')}` }
}
