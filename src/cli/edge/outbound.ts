// Where the Worker's own requests go: hosts given with --outbound, hosts with a private CA, everything else.

import { randomBytes } from 'node:crypto'
import { createServer, request as httpRequest, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { request as httpsRequest } from 'node:https'
import { getCACertificates } from 'node:tls'
import type { V4WorkerOptions } from 'miniflare'
import { listen } from './terminator.ts'

export interface Detours {
  /** `host` or `host:port` → origin that answers in its place. */
  readonly origins: ReadonlyMap<string, URL>
  /** `host` or `host:port` → PEM of the private CA that it is trusted by. */
  readonly authorities: ReadonlyMap<string, string>
}

export interface Outbound {
  /** Worker that Miniflare sends every outgoing request through. */
  readonly worker: V4WorkerOptions
  readonly close: () => void
}

export const OUTBOUND_WORKER = 'muster-outbound'

/**
 * Starts the forwarder and describes the Worker in front of it. Null where there is no detour: then workerd goes out
 * by itself.
 */
export async function startOutbound(detours: Detours): Promise<Outbound | null> {
  const hosts = [...new Set([...detours.origins.keys(), ...detours.authorities.keys()])]
  if (hosts.length === 0) return null
  const secret = randomBytes(32).toString('base64url')
  const server = createServer({ requireHostHeader: false }, (request, response) => {
    if (request.headers[SECRET] === secret) forward(detours, request, response)
    else response.writeHead(403).end()
  })
  const port = await listen(server, 0)
  return { worker: outboundWorker(hosts, port, secret), close: () => closeAll(server) }
}

const SECRET = 'mf-muster-outbound'

/** Not in Node: workerd itself sends what needs no detour, so that its errors and its TLS are the deployed Worker's. */
const SCRIPT = `export default {
  fetch(request, env) {
    const { host, hostname } = new URL(request.url)
    return (env.HOSTS.includes(host) || env.HOSTS.includes(hostname) ? env.DETOUR : globalThis).fetch(request)
  },
}`

function outboundWorker(hosts: readonly string[], port: number, secret: string): V4WorkerOptions {
  return {
    name: OUTBOUND_WORKER,
    modules: [{ type: 'ESModule', path: 'outbound.mjs', contents: SCRIPT }],
    compatibilityDate: '2026-11-01',
    bindings: { HOSTS: [...hosts] },
    serviceBindings: {
      DETOUR: {
        external: {
          address: `127.0.0.1:${port}`,
          // A proxy's request line names the whole URL, and there is no Host header.
          http: { style: PROXY_STYLE, injectRequestHeaders: [{ name: SECRET, value: secret }] },
        },
      },
    },
  }
}
const PROXY_STYLE = 1

/** Method, path, headers, body, status and redirects go through unaltered; a failure is a cut connection. */
function forward(detours: Detours, request: IncomingMessage, response: ServerResponse): void {
  const url = new URL(request.url ?? '')
  const origin = detours.origins.get(url.host) ?? detours.origins.get(url.hostname) ?? url
  const ca = detours.authorities.get(url.host) ?? detours.authorities.get(url.hostname)
  const send = origin.protocol === 'https:' ? httpsRequest : httpRequest
  const onward = send({
    host: origin.hostname.replace(/^\[|\]$/g, ''),
    port: origin.port,
    method: request.method ?? 'GET',
    path: `${url.pathname}${url.search}`,
    headers: ['Host', url.host, ...withoutSecret(request.rawHeaders)],
    setHost: false,
    ...(ca !== undefined && { ca: [...getCACertificates('default'), ca] }),
  })
  onward.on('response', (answer) => {
    response.writeHead(answer.statusCode ?? 502, answer.statusMessage, answer.rawHeaders)
    answer.pipe(response)
    answer.on('error', () => response.destroy())
  })
  onward.on('error', () => response.destroy())
  response.on('close', () => onward.destroy())
  request.pipe(onward)
}

const withoutSecret = (rawHeaders: readonly string[]): string[] =>
  rawHeaders.filter((_, i) => rawHeaders[i - (i % 2)]?.toLowerCase() !== SECRET)

function closeAll(server: Server): void {
  server.close()
  server.closeAllConnections()
}
