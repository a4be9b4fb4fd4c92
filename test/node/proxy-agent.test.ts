// Tests requests through the proxy agent: real proxies on loopback with real TLS behind them, used by node:https, ws
// and the AWS SDK.

import dns, { type LookupAddress, type LookupOptions } from 'node:dns'
import { once } from 'node:events'
import { createServer, setGlobalProxyFromEnv } from 'node:http'
import { createServer as createTlsServer, get, type RequestOptions } from 'node:https'
import { type AddressInfo, createServer as createTcpServer, type Server, type Socket } from 'node:net'
import type { TLSSocket } from 'node:tls'
import { NodeHttpHandler } from '@smithy/node-http-handler'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { WebSocket, WebSocketServer } from 'ws'
import { exchange } from '../../src/node/http-client.ts'
import { agentFor, directAgent, type Outgoing, ProxyAgent } from '../../src/node/proxy-agent.ts'
import { directly, ForwardProxy, rulesOf, type SelfSigned, selfSigned } from '../fakes/forward-proxy.ts'

const never = new AbortController().signal

/** Answers with the server name that it was asked for, and whether the client sent a certificate. */
let target: ReturnType<typeof createTlsServer>
let targetPort = 0
let behind: SelfSigned
let proxyTls: SelfSigned
let stranger: SelfSigned
let proxy: ForwardProxy
let secureProxy: ForwardProxy

beforeAll(async () => {
  behind = await selfSigned({ type: 'dns', value: 'far.test' }, { type: 'ip', value: '10.1.2.3' })
  proxyTls = await selfSigned({ type: 'dns', value: 'localhost' }, { type: 'ip', value: '127.0.0.1' })
  stranger = await selfSigned({ type: 'dns', value: 'runner' })
  target = createTlsServer({ ...behind, requestCert: true, rejectUnauthorized: false }, (request, response) => {
    const socket = request.socket as TLSSocket
    const clientCertificate = Object.keys(socket.getPeerCertificate()).length > 0
    response.end(JSON.stringify({ sni: socket.servername, clientCertificate, host: request.headers.host }))
  })
  const tunnels = new WebSocketServer({ noServer: true })
  target.on('upgrade', (request, socket, head) =>
    tunnels.handleUpgrade(request, socket, head, (one) => {
      one.on('message', (data) => one.send(`heard ${data}`))
    }),
  )
  await new Promise<void>((resolve) => target.listen(0, '127.0.0.1', resolve))
  targetPort = (target.address() as AddressInfo).port
})
afterAll(() => {
  target.close()
  target.closeAllConnections()
})

/** Every name under `.test` is this machine, but a proxy is asked for it where there is one. */
const looked: string[] = []
type Found = (error: Error | null, found: LookupAddress[] | string, family?: number) => void
function lookUp(host: string, { all }: LookupOptions, give: Found): void {
  if (host !== '127.0.0.1') looked.push(host)
  const here = ['localhost', '127.0.0.1'].includes(host) || host.replace(/\.$/, '').endsWith('.test')
  if (!here || host === 'near.test') give(new Error(`getaddrinfo ENOTFOUND ${host}`), [])
  else if (all) give(null, [{ address: '127.0.0.1', family: 4 }])
  else give(null, '127.0.0.1', 4)
}

const open: { close: () => unknown }[] = []
beforeEach(async () => {
  looked.length = 0
  vi.spyOn(dns, 'lookup').mockImplementation(lookUp as never)
  proxy = await ForwardProxy.start(targetPort)
  secureProxy = await ForwardProxy.start(targetPort, proxyTls)
  open.push(proxy, secureProxy)
})
afterEach(() => {
  vi.restoreAllMocks()
  for (const one of open.splice(0)) one.close()
})

const both = (): string => behind.cert + proxyTls.cert
const outgoing = (env: NodeJS.ProcessEnv, roots: string | null = both()): Outgoing => ({
  rules: rulesOf(env),
  roots,
  signal: never,
})
const plainProxy = (credentials = '') => ({ HTTPS_PROXY: `http://${credentials}127.0.0.1:${proxy.port}` })
const tlsProxy = (credentials = '') => ({ HTTPS_PROXY: `https://${credentials}localhost:${secureProxy.port}` })

/** The answer, or in one line why there is none. */
async function ask(url: string, env: NodeJS.ProcessEnv, roots: string | null = both(), timeout = 10_000) {
  const network = { ...directly, rules: rulesOf(env), extraRoots: () => roots }
  const answer = await exchange(new URL(url), network, { method: 'GET', headers: {}, timeout, limit: 1024 })
  return answer.ok ? JSON.parse(Buffer.from(answer.value.body).toString()) : answer.error
}

async function listen(server: Server): Promise<number> {
  open.push(server)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return (server.address() as AddressInfo).port
}

describe.each([
  ['http', () => proxy, plainProxy],
  ['https', () => secureProxy, tlsProxy],
] as const)('through an %s proxy', (_scheme, used, env) => {
  test('a request reaches its target with its own server name', async () => {
    expect(await ask('https://far.test:8443/', env())).toEqual({
      sni: 'far.test',
      clientCertificate: false,
      host: 'far.test:8443',
    })
    expect(used().asked).toEqual(['far.test:8443'])
  })

  test('the proxy gets user name and password, the target does not', async () => {
    expect(await ask('https://far.test/', env('u:p%zz:%40@'))).toMatchObject({ sni: 'far.test' })
    expect(used().asked).toEqual(['far.test:443 u:p%zz:@'])
  })

  test('an address is no server name, and is what the certificate must be for', async () => {
    expect(await ask('https://10.1.2.3/', env())).toMatchObject({ sni: false })
    expect(await ask('https://10.1.2.4/', env())).toContain("does not match certificate's altnames: IP: 10.1.2.4")
    expect(used().asked).toEqual(['10.1.2.3:443', '10.1.2.4:443'])
  })

  test('a certificate for another name is refused, the name of the proxy included', async () => {
    expect(await ask('https://other.test/', env())).toMatch(/^other\.test: .*altnames/)
    const swapped = await ForwardProxy.start(secureProxy.port)
    open.push(swapped)
    const through = { HTTPS_PROXY: `http://localhost:${swapped.port}` }
    expect(await ask('https://far.test/', through)).toMatch(/^far\.test: .*altnames/)
  })

  test('a trailing dot is neither in the server name nor in the CONNECT request', async () => {
    expect(await ask('https://far.test./', env())).toMatchObject({ sni: 'far.test' })
    expect(used().asked).toEqual(['far.test:443'])
  })

  test('an unknown CA of the target is reported of the target, not of the proxy', async () => {
    expect(await ask('https://far.test/', env(), proxyTls.cert)).toBe(
      'the certificate of far.test is not from a CA that this machine trusts (DEPTH_ZERO_SELF_SIGNED_CERT): if the CA is yours, set RUNNER_CA_PEM to its certificate',
    )
  })

  test('a client certificate is for the target alone', async () => {
    const client = { certificate: stranger.cert, key: stranger.key }
    const agent = new ProxyAgent({ ...outgoing(env()), client })
    const answer = await new Promise<string>((resolve, reject) => {
      const options: RequestOptions = { host: 'far.test', agent }
      get(options, (response) => response.setEncoding('utf8').once('data', resolve)).on('error', reject)
    })
    expect(JSON.parse(answer)).toMatchObject({ clientCertificate: true })
    expect(used().serverNames.every((name) => name === 'localhost')).toBe(true)
  })

  test('a WebSocket opens', async () => {
    const agent = agentFor(new URL('wss://far.test'), outgoing(env()))
    const socket = new WebSocket('wss://far.test/tunnel', { agent })
    await once(socket, 'open')
    socket.send('hello')
    const [data] = await once(socket, 'message')
    expect(String(data)).toBe('heard hello')
    socket.close()
    await once(socket, 'close')
    expect(used().asked).toEqual(['far.test:443'])
  })

  test('the AWS SDK uses the proxy by the rules for each host', async () => {
    const rules = { ...env(), NO_PROXY: 'near.test' }
    const requestHandler = new NodeHttpHandler({
      httpsAgent: new ProxyAgent(outgoing(rules)),
      httpAgent: directAgent(),
    })
    const send = (hostname: string) =>
      requestHandler.handle({ protocol: 'https:', hostname, method: 'GET', path: '/', headers: {}, query: {} } as never)
    const { response } = await send('far.test')
    expect(response.statusCode).toBe(200)
    response.body.resume()
    await expect(send('near.test')).rejects.toThrow('near.test')
    expect(used().asked).toEqual(['far.test:443'])
  })
})

describe('an https proxy', () => {
  test('is called by its own name', async () => {
    await ask('https://far.test/', tlsProxy())
    await ask('https://far.test/', { HTTPS_PROXY: `https://127.0.0.1:${secureProxy.port}` })
    expect(secureProxy.serverNames).toEqual(['localhost', false])
  })

  test('of an unknown CA is named in the error, and gets no password', async () => {
    expect(await ask('https://far.test/', tlsProxy('u:hush@'), behind.cert)).toBe(
      `far.test: the proxy localhost:${secureProxy.port} (HTTPS_PROXY) fails in TLS: its certificate is not from a CA that this machine trusts (DEPTH_ZERO_SELF_SIGNED_CERT): if the CA is yours, set RUNNER_CA_PEM to its certificate`,
    )
    expect(secureProxy.asked).toEqual([])
  })

  test('with a certificate for another name is refused before it gets a request', async () => {
    const url = `https://u:hush@other.test:${secureProxy.port}`
    const complaint = await ask('https://far.test/', { HTTPS_PROXY: url })
    expect(complaint).toMatch(/^far\.test: the proxy other\.test:\d+ \(HTTPS_PROXY\) fails in TLS: .*altnames/)
    expect(complaint).not.toContain('hush')
    expect(secureProxy.asked).toEqual([])
  })

  test('that speaks plain http fails in TLS', async () => {
    const complaint = await ask('https://far.test/', { https_proxy: `https://127.0.0.1:${proxy.port}` })
    expect(complaint).toMatch(/^far\.test: the proxy 127\.0\.0\.1:\d+ \(https_proxy\) fails in TLS: .*wrong version/)
    expect(complaint).not.toContain('\n')
  })
})

describe('the hop that fails is named', () => {
  test('a proxy that cannot be reached', async () => {
    expect(await ask('https://far.test/', { ALL_PROXY: 'http://u:hush@127.0.0.1:9' })).toBe(
      'far.test: the proxy 127.0.0.1:9 (ALL_PROXY) cannot be reached: connect ECONNREFUSED 127.0.0.1:9',
    )
    expect(await ask('https://far.test/', { https_proxy: 'http://u:hush@proxy.invalid:3128' })).toMatch(
      /^far\.test: the proxy proxy\.invalid:3128 \(https_proxy\) cannot be reached: getaddrinfo \w+ proxy\.invalid$/,
    )
  })

  test.each([
    [407, 'refused CONNECT with 407: it wants a user name and password, or other ones'],
    [403, 'refused CONNECT with 403'],
    [502, 'refused CONNECT with 502'],
    [302, 'refused CONNECT with 302'],
  ])('a proxy that answers CONNECT with %i', async (status, expected) => {
    proxy.answer = (socket) => socket.end(`HTTP/1.1 ${status} No\r\nlocation: https://x\r\n\r\n{"hush":1}`)
    expect(await ask('https://far.test/', plainProxy('u:hush@'))).toBe(
      `far.test: the proxy 127.0.0.1:${proxy.port} (HTTPS_PROXY) ${expected}`,
    )
  })

  test('a proxy that hangs up, and a server that is not a proxy', async () => {
    proxy.answer = (socket) => socket.destroy()
    expect(await ask('https://far.test/', plainProxy())).toMatch(/\(HTTPS_PROXY\) does not answer CONNECT: /)
    const port = await listen(createTcpServer((socket) => socket.end('220 mail.test ESMTP\r\n')))
    expect(await ask('https://far.test/', { HTTPS_PROXY: `127.0.0.1:${port}` })).toMatch(
      /\(HTTPS_PROXY\) does not answer CONNECT: Parse Error/,
    )
  })

  test('a target that hangs up behind a good proxy', async () => {
    const port = await listen(createTcpServer((socket) => socket.destroy()))
    const other = await ForwardProxy.start(port)
    open.push(other)
    const complaint = await ask('https://far.test/', { HTTPS_PROXY: `127.0.0.1:${other.port}` })
    expect(complaint).toMatch(/^far\.test: /)
    expect(complaint).not.toContain('the proxy')
  })

  test('a proxy that does not answer: the attempt ends and its connection is closed', async () => {
    const closed = Promise.withResolvers<void>()
    proxy.answer = (socket: Socket) => socket.resume().on('end', () => closed.resolve())
    expect(await ask('https://far.test/', plainProxy(), null, 300)).toBe(
      `far.test: the proxy 127.0.0.1:${proxy.port} (HTTPS_PROXY) does not answer CONNECT: no answer in time`,
    )
    await closed.promise
  })
})

describe('this machine is never asked through a proxy', () => {
  const everything = () => {
    const url = `http://127.0.0.1:${proxy.port}`
    return { HTTP_PROXY: url, http_proxy: url, HTTPS_PROXY: url, ALL_PROXY: url }
  }

  test('by TLS', async () => {
    const complaint = await ask(`https://127.0.0.1:${targetPort}/`, everything())
    expect(complaint).toContain('127.0.0.1 is not in the cert')
    expect(proxy.asked).toEqual([])
  })

  test('by plain http, even where Node itself is set to use the proxy', async () => {
    const port = await listen(createServer((_request, response) => response.end('{"here":true}')))
    const restore = setGlobalProxyFromEnv(everything())
    try {
      expect(await ask(`http://127.0.0.1:${port}/`, everything())).toEqual({ here: true })
    } finally {
      restore()
    }
    expect(proxy.asked).toEqual([])
  })
})

test('without a proxy the target is reached directly, its trailing dot only for DNS', async () => {
  expect(await ask(`https://far.test.:${targetPort}/`, {})).toMatchObject({
    sni: 'far.test',
    host: `far.test:${targetPort}`,
  })
  expect(looked).toEqual(['far.test.'])
})

test('a certificate that is not valid by this machine’s clock says so, of a target and of a proxy', async () => {
  const past = await selfSigned({ type: 'dns', value: 'far.test' }, { type: 'ip', value: '127.0.0.1' }, 'expired')
  const server = createTlsServer(past)
  const port = await listen(server)
  const why = "is not valid by this machine's clock (CERT_HAS_EXPIRED): look at the clock first"
  expect(await ask(`https://far.test:${port}/`, {}, past.cert)).toBe(`the certificate of far.test:${port} ${why}`)
  expect(await ask('https://far.test/', { HTTPS_PROXY: `https://127.0.0.1:${port}` }, past.cert)).toBe(
    `far.test: the proxy 127.0.0.1:${port} (HTTPS_PROXY) fails in TLS: its certificate ${why}`,
  )
})

test('the error for a header that cannot be sent leaves out its value', async () => {
  const sent = { method: 'GET', headers: { authorization: 'hush\n' }, timeout: 1000, limit: 1024 } as const
  const answer = await exchange(new URL('http://127.0.0.1:9/'), directly, sent)
  expect(answer).toEqual({ ok: false, error: '127.0.0.1:9: Invalid character in header content ["authorization"]' })
})

test('an answer that is too long, and one that is cut off', async () => {
  const long = await listen(createServer((_request, response) => response.end('x'.repeat(5000))))
  expect(await ask(`http://127.0.0.1:${long}/`, {})).toBe(`127.0.0.1:${long}: the answer is over 1 KiB`)
  const cut = await listen(
    createTcpServer((socket) => socket.once('data', () => socket.end('HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{'))),
  )
  expect(await ask(`http://127.0.0.1:${cut}/`, {})).toMatch(/^127\.0\.0\.1:\d+: aborted$/)
})
