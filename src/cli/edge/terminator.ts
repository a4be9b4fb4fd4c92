// Serves the two ports of the local edge, plain http and TLS, and forwards to workerd as Cloudflare's edge does.

import { constants } from 'node:crypto'
import {
  Agent,
  createServer,
  request as httpRequest,
  type IncomingMessage,
  type RequestOptions,
  type Server,
  ServerResponse,
} from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { Duplex } from 'node:stream'
import { admit, type EdgeProblem } from './admission.ts'
import { CF_HEADER, cfOf, type Scheme } from './cf.ts'

export interface Upstream {
  /** workerd's own port on 127.0.0.1. */
  readonly port: number
  /** What workerd's port takes requests with; made anew for every run. */
  readonly secret: string
}

/** Requests with this many octets of headers are refused, as at Cloudflare; Node's own limit is 16 KiB. */
const LARGEST_HEADERS = 128 * 1024
const SHARED = {
  maxHeaderSize: LARGEST_HEADERS,
  keepAliveTimeout: 75_000,
  // Anything else that asks for an upgrade (curl's h2c) is an ordinary request.
  shouldUpgradeCallback: (request: IncomingMessage) => request.headers.upgrade?.toLowerCase() === 'websocket',
}

export function plainServer(upstream: Upstream): Server {
  return serve(createServer(SHARED), 'http', upstream)
}

export function tlsServer(upstream: Upstream, key: string, cert: string): Server {
  const options = {
    ...SHARED,
    key,
    cert,
    // Every certificate is let through, as at an edge without a blocking rule: the Worker judges it.
    requestCert: true,
    rejectUnauthorized: false,
    // No resumption: a resumed session would show the certificate of an earlier one.
    secureOptions: constants.SSL_OP_NO_TICKET | constants.SSL_OP_NO_RENEGOTIATION,
    ALPNProtocols: ['http/1.1'],
  }
  return serve(createTlsServer(options), 'https', upstream)
}

function serve(server: Server, scheme: Scheme, upstream: Upstream): Server {
  // workerd closes a connection that is idle for 5 s; ours are gone before that.
  const agent = new Agent({ keepAlive: true, timeout: 3000 })
  server.on('request', (request, response) => {
    const url = admit(request, scheme)
    if (url.ok) forward(request, response, { ...upstreamRequest(request, url.value, scheme, upstream), agent })
    else refuse(response, url.error)
  })
  server.on('upgrade', (request, socket, head) => {
    const url = admit(request, scheme)
    if (url.ok) upgrade(request, socket, head, upstreamRequest(request, url.value, scheme, upstream))
    else refuse(responseOn(request, socket), url.error)
  })
  server.on('close', () => agent.destroy())
  return server
}

/** The last answer of its connection, since the rest of the request is not read. */
function refuse(response: ServerResponse, problem: EdgeProblem): void {
  response.writeHead(problem.status, { 'content-type': 'application/problem+json', connection: 'close' })
  response.end(`${JSON.stringify(problem)}\n`)
}

function upstreamRequest(
  request: IncomingMessage,
  url: string,
  scheme: Scheme,
  { port, secret }: Upstream,
): RequestOptions {
  const headers = [
    ...pairsOf(request.rawHeaders)
      .filter(([name]) => !isEdgeHeader(name.toLowerCase()))
      .flat(),
    'CF-Connecting-IP',
    request.socket.remoteAddress ?? '127.0.0.1',
    'X-Forwarded-Proto',
    scheme,
    'CF-Visitor',
    JSON.stringify({ scheme }),
    CF_HEADER,
    asciiJson({ ...cfOf(request), edge: { secret } }),
  ]
  return {
    host: '127.0.0.1',
    port,
    method: request.method ?? 'GET',
    // The absolute form (RFC 9112 §3.2.2).
    path: url,
    headers,
    setHost: false,
    maxHeaderSize: LARGEST_HEADERS,
  }
}

/** Headers that the edge sets itself, or that end at a connection: never taken from a client. */
const isEdgeHeader = (name: string): boolean =>
  name.startsWith('mf-') || name.startsWith('cf-connecting-') || EDGE_HEADERS.has(name)
const EDGE_HEADERS = new Set([
  'cf-visitor',
  'cf-ew-via',
  'cf-worker',
  'true-client-ip',
  'x-real-ip',
  'x-forwarded-proto',
  'connection',
  'keep-alive',
  'proxy-connection',
  'expect',
])

function forward(request: IncomingMessage, response: ServerResponse, options: RequestOptions): void {
  const onward = httpRequest(options)
  onward.on('response', (answer) => relay(answer, response))
  onward.on('error', () => fail(response))
  // An answer may come before the end of the request; then the client sends on, and reads it after.
  response.on('close', () => response.writableFinished || onward.destroy())
  request.on('close', () => request.complete || onward.destroy())
  request.pipe(onward)
}

function upgrade(request: IncomingMessage, socket: Duplex, head: Buffer, options: RequestOptions): void {
  const headers = [...(options.headers as string[]), 'Connection', 'Upgrade']
  const onward = httpRequest({ ...options, headers, agent: false })
  onward.on('upgrade', (answer, peer, first) => {
    socket.write(`HTTP/1.1 101 Switching Protocols\r\n${headerLines(answer.rawHeaders)}\r\n`)
    socket.write(first)
    peer.write(head)
    join(socket, peer)
    join(peer, socket)
  })
  onward.on('response', (answer) => relay(answer, responseOn(request, socket)))
  onward.on('error', () => fail(responseOn(request, socket)))
  socket.on('error', () => onward.destroy())
  onward.end()
}

function join(from: Duplex, to: Duplex): void {
  from.pipe(to)
  from.on('error', () => to.destroy())
  from.on('close', () => to.destroy())
}

function relay(answer: IncomingMessage, response: ServerResponse): void {
  const headers = pairsOf(answer.rawHeaders).filter(([name]) => !ENDS_HERE.has(name.toLowerCase()))
  response.writeHead(answer.statusCode ?? 502, answer.statusMessage, headers.flat())
  answer.pipe(response)
  answer.on('error', () => response.destroy())
}
const ENDS_HERE = new Set(['connection', 'keep-alive', 'transfer-encoding'])

/** The Worker did not answer: 502 where no answer has begun, a cut where one has. */
function fail(response: ServerResponse): void {
  if (response.headersSent || response.destroyed) response.destroy()
  else response.writeHead(502, { 'content-type': 'text/plain' }).end('the Worker did not answer\n')
}

/** An upgrade that is refused is answered like any request, and is the last one of its connection. */
function responseOn(request: IncomingMessage, socket: Duplex): ServerResponse {
  const response = new ServerResponse(request)
  response.shouldKeepAlive = false
  // Node hands out the socket of a connection here, whatever stream the types allow for.
  response.assignSocket(socket as typeof request.socket)
  response.on('finish', () => socket.end())
  return response
}

function pairsOf(rawHeaders: readonly string[]): [string, string][] {
  const pairs: [string, string][] = []
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) pairs.push([rawHeaders[i] ?? '', rawHeaders[i + 1] ?? ''])
  return pairs
}

const headerLines = (rawHeaders: readonly string[]): string =>
  pairsOf(rawHeaders)
    .map(([name, value]) => `${name}: ${value}\r\n`)
    .join('')

/** A name in a certificate may hold anything; a header holds ASCII. */
const asciiJson = (value: unknown): string =>
  JSON.stringify(value).replaceAll(/[\u007f-\uffff]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`)
