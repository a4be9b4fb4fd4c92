// Tests which headers and certificates reach the Worker through the two ports of the local edge, and that a client
// cannot forge them.
import 'reflect-metadata'
import type { X509Certificate } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { type TLSSocket, connect as tlsConnect } from 'node:tls'
import { Extension, X509CertificateGenerator } from '@peculiar/x509'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type EchoEdge, type Reached, startEchoEdge } from './echo-edge.ts'

let edge: EchoEdge
const scratch = mkdtempSync(join(tmpdir(), 'muster-ports-'))
beforeAll(async () => {
  edge = await startEchoEdge(scratch)
})
afterAll(async () => {
  await edge.stop()
  rmSync(scratch, { recursive: true })
})

const CRONS = '/cdn-cgi/local/scheduled'
/** Of no cron job that the edge itself runs each minute. */
const FORGED = `${CRONS}?cron=forged`

/** Names of no loopback address, or that only look like one. */
const ELSEWHERE = [
  'evil.example',
  'muster.example:8443',
  'localhost.evil.example',
  '127.0.0.1.evil.example',
  'xlocalhost',
  '0.0.0.0',
  '128.0.0.1',
  '192.168.0.7:8787',
  '[::]',
  '[fe80::1]:8787',
]

/** What the plain port answers to these lines. */
async function overSocket(lines: string): Promise<string> {
  const socket = connect(Number(new URL(edge.url).port), '127.0.0.1')
  socket.write(`${lines}${lines.includes('Connection:') ? '' : '\r\nConnection: close'}\r\n\r\n`)
  return text(socket)
}

/** A certificate that says nothing of interest, of any size. */
async function clientCertificate(padding = 0): Promise<{ key: string; cert: string; der: Buffer }> {
  const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' }
  const keys = await crypto.subtle.generateKey(algorithm, true, ['sign', 'verify'])
  const cert = await X509CertificateGenerator.createSelfSigned({
    serialNumber: '0b',
    name: 'CN=naïve “runner”, O=acme',
    notBefore: new Date(Date.now() - 60_000),
    notAfter: new Date(Date.now() + 60_000),
    keys,
    signingAlgorithm: algorithm,
    extensions: padding > 0 ? [new Extension('1.3.6.1.4.1.55555.1', false, new Uint8Array(padding))] : [],
  })
  const pkcs8 = Buffer.from(await crypto.subtle.exportKey('pkcs8', keys.privateKey)).toString('base64')
  const key = `-----BEGIN PRIVATE KEY-----\n${pkcs8}\n-----END PRIVATE KEY-----\n`
  return { key, cert: cert.toString('pem'), der: Buffer.from(cert.rawData) }
}

describe('the ports', () => {
  test('say the scheme, the host and the address as the edge sees them', async () => {
    const [plain, tls] = await Promise.all([edge.reach(edge.url), edge.reach(edge.tlsUrl)])
    expect(plain.url).toBe(`${edge.url}/`)
    expect(tls.url).toBe(`${edge.tlsUrl}/`)
    for (const { headers } of [plain, tls]) expect(headers['cf-connecting-ip']).toBe('127.0.0.1')
    expect(tls.headers['x-forwarded-proto']).toBe('https')
    expect(tls.cf).toMatchObject({ tlsVersion: 'TLSv1.3', httpProtocol: 'HTTP/1.1' })
  })

  test.each(['localhost', 'LOCALHOST.:8443', 'a.localhost:1', '127.0.0.1', '127.8.9.10:8787', '[::1]:8788'])(
    'keep %s, the name of this machine that the client asked for',
    async (host) => {
      const { url } = await edge.reach(edge.tlsUrl, { path: '/a%2Fb?q=%20', headers: { host } })
      expect(url).toBe(`${new URL(`https://${host}`).origin}/a%2Fb?q=%20`)
    },
  )

  test.each(['http', 'https'])('answer 421 over %s to whoever asks for another host', async (scheme) => {
    for (const host of ELSEWHERE) {
      for (const headers of [{ host }, { host, connection: 'Upgrade', upgrade: 'websocket' }]) {
        const answer = await edge.send(scheme === 'http' ? edge.url : edge.tlsUrl, { path: FORGED, headers })
        expect(answer).toMatchObject({ status: 421, headers: { 'content-type': 'application/problem+json' } })
        expect(JSON.parse(answer.body).detail).toContain(`not to ${new URL(`http://${host}`).hostname}`)
      }
    }
    expect((await edge.reach(edge.url)).ran).not.toContain('forged')
  })

  test.each([
    ['GET http://%s/a?b HTTP/1.1', 200],
    ['GET HTTPS://%s HTTP/1.1', 200],
    ['GET http://evil.example/ HTTP/1.1', 400],
    ['GET http://localhost/ HTTP/1.1', 400],
    ['GET http://a@%s/ HTTP/1.1', 400],
    ['GET ftp://%s/ HTTP/1.1', 400],
    ['OPTIONS * HTTP/1.1', 400],
  ])('take a path or a URL of Host alone as the target of a request: %s', async (line, status) => {
    const { host } = new URL(edge.url)
    expect(await overSocket(`${line.replace('%s', host)}\r\nHost: ${host}`)).toMatch(RegExp(`^HTTP/1\\.1 ${status} `))
  })

  test('take no request without Host', async () => {
    for (const version of ['1.0', '1.1']) expect(await overSocket(`GET / HTTP/${version}`)).toMatch(/^HTTP\/1\.1 400 /)
  })

  test.each([
    'Host: a b{}',
    'Host: a@b',
    'Host: a#b',
    'Host: a?b',
    'Host: a/b',
    'Host: a\\b',
    'Host: ',
    'Host: [::1',
    'Host: a:99999',
    'Host: localhost\r\nHost: localhost',
  ])('answer 400 to %j, which names no host', async (host) => {
    for (const more of ['', '\r\nConnection: Upgrade\r\nUpgrade: websocket']) {
      expect(await overSocket(`GET / HTTP/1.1\r\n${host}${more}`)).toMatch(/^HTTP\/1\.1 400 /)
    }
  })

  test('show no header of the edge’s own to the Worker’s code', async () => {
    const reached = await edge.reach(edge.tlsUrl)
    expect(reached.headers).not.toHaveProperty('mf-cf-blob')
  })

  test.each(['http', 'https'])('drop over %s what a client claims to be the edge’s', async (scheme) => {
    const forged = {
      'MF-CF-Blob': JSON.stringify({ colo: 'FOO', tlsClientAuth: { certPresented: '1', certRFC9440: ':AAAA:' } }),
      'mf-original-url': 'https://elsewhere.example/',
      'CF-Connecting-IP': '203.0.113.9',
      'cf-connecting-ipv6': '2001:db8::1',
      'True-Client-IP': '203.0.113.9',
      'X-Forwarded-Proto': 'https',
      'Client-Cert': ':AAAA:',
    }
    const reached = await edge.reach(scheme === 'http' ? edge.url : edge.tlsUrl, { headers: forged })
    expect(reached.cf.colo).toBe('DEV')
    expect(reached.cf.tlsClientAuth).toMatchObject({ certPresented: '0', certRFC9440: '' })
    expect(reached.headers['cf-connecting-ip']).toBe('127.0.0.1')
    expect(reached.headers['x-forwarded-proto']).toBe(scheme)
    expect(new URL(reached.url).protocol).toBe(`${scheme}:`)
    expect(Object.keys(reached.headers).filter((name) => /^mf-|true-client|ipv6/.test(name))).toEqual([])
    // The client's own words in a header of its own are the Worker's to judge.
    expect(reached.headers['client-cert']).toBe(':AAAA:')
  })

  test('hand variables over with their line ends', async () => {
    expect((await edge.reach(edge.url)).variables.LINES).toBe('one\ntwo')
  })

  test('answer no compressed body to a client that asked for none', async () => {
    const answer = await edge.send(edge.url)
    expect(answer.headers['content-encoding']).toBeUndefined()
  })
})

describe('client certificates', () => {
  test('reach the Worker as the DER of the leaf, whoever issued it', async () => {
    const { key, cert, der } = await clientCertificate()
    const { tlsClientAuth } = (await edge.reach(edge.tlsUrl, { key, cert })).cf
    expect(tlsClientAuth).toMatchObject({
      certPresented: '1',
      certRevoked: '0',
      certRFC9440TooLarge: false,
      certSerial: '0B',
    })
    expect(tlsClientAuth.certRFC9440).toBe(`:${der.toString('base64')}:`)
    expect(tlsClientAuth.certVerified).toMatch(/^FAILED:/)
    expect(tlsClientAuth.certSubjectDN).toContain('“runner”')
    expect(Object.keys(tlsClientAuth).filter((name) => /san|subjectalt/i.test(name))).toEqual([])
  })

  test('are named as too large over 10 KB, not cut', async () => {
    const { key, cert, der } = await clientCertificate(11_000)
    expect(der.length).toBeGreaterThan(10 * 1024)
    const { tlsClientAuth } = (await edge.reach(edge.tlsUrl, { key, cert })).cf
    expect(tlsClientAuth).toMatchObject({ certPresented: '1', certRFC9440: '', certRFC9440TooLarge: true })
  })

  test('are not taken from an earlier session', async () => {
    const [first, second] = await Promise.all([clientCertificate(), clientCertificate()])
    const ask = async (client: { key: string; cert: string }, session?: Buffer) => {
      const { port } = new URL(edge.tlsUrl)
      const socket = tlsConnect({
        port: Number(port),
        host: '127.0.0.1',
        ca: edge.ca,
        ...client,
        ...(session && { session }),
      })
      let ticket: Buffer | undefined
      let resumed: boolean | undefined
      socket.on('session', (given) => {
        ticket = given
      })
      socket.on('secureConnect', () => {
        resumed = socket.isSessionReused()
      })
      const reached = await reachOver(socket)
      return { resumed, certificate: reached.cf.tlsClientAuth.certRFC9440, ticket }
    }
    const before = await ask(first)
    const after = await ask(second, before.ticket)
    expect(before.certificate).toBe(`:${first.der.toString('base64')}:`)
    expect(after).toMatchObject({ resumed: false, certificate: `:${second.der.toString('base64')}:` })
  })
})

async function reachOver(socket: TLSSocket): Promise<Reached> {
  socket.write('GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n')
  let text = ''
  for await (const chunk of socket) text += chunk
  return JSON.parse(text.slice(text.indexOf('{'), text.lastIndexOf('}') + 1))
}

test('the certificate of the TLS port is one that OpenSSL takes for localhost, 127.0.0.1 and ::1', async () => {
  const { port } = new URL(edge.tlsUrl)
  for (const servername of ['localhost', '127.0.0.1', '::1']) {
    const socket = tlsConnect({
      port: Number(port),
      host: '127.0.0.1',
      ca: edge.ca,
      checkServerIdentity: () => undefined,
    })
    const leaf = await new Promise<X509Certificate | undefined>((resolve) => {
      socket.on('secureConnect', () => resolve(socket.getPeerX509Certificate()))
    })
    expect(socket.authorized).toBe(true)
    expect(servername === 'localhost' ? leaf?.checkHost(servername) : leaf?.checkIP(servername)).toBe(servername)
    socket.destroy()
  }
})

describe('a page in a browser', () => {
  const own = () => ({ origin: new URL(edge.url).origin })
  test.each<[string, () => Record<string, string>]>([
    ['of another site', () => ({ 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'no-cors' })],
    ['of another port', () => ({ 'sec-fetch-site': 'same-site', 'sec-fetch-mode': 'cors' })],
    ['that says something new', () => ({ 'sec-fetch-site': 'none, same-origin' })],
    ['of another origin', () => ({ origin: 'https://evil.example' })],
    ['of the other scheme', () => ({ origin: edge.url.replace('http:', 'https:') })],
    ['of no origin', () => ({ origin: 'null' })],
    ['in an old browser', () => ({ referer: 'https://evil.example/a' })],
    [
      'with a link to the cron jobs',
      () => ({ 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'document' }),
    ],
  ])('%s runs no cron job', async (_, headers) => {
    for (const path of [CRONS, FORGED, `/x/..${FORGED}`, FORGED.replace('local', '%2e/local')]) {
      for (const method of ['GET', 'POST']) {
        expect(await edge.send(edge.url, { path, method, headers: headers() })).toMatchObject({ status: 403 })
      }
    }
    expect((await edge.reach(edge.url)).ran).not.toContain('forged')
  })

  test('of another site opens no socket and posts no form', async () => {
    const site = { origin: 'https://evil.example', 'sec-fetch-site': 'cross-site' }
    const socket = { ...site, 'sec-fetch-mode': 'websocket', connection: 'Upgrade', upgrade: 'websocket' }
    expect(await edge.send(edge.url, { path: '/socket', headers: socket })).toMatchObject({ status: 403 })
    const form = { ...site, 'sec-fetch-mode': 'navigate' }
    expect(await edge.send(edge.tlsUrl, { method: 'POST', headers: form })).toMatchObject({ status: 403 })
  })

  test('of another site may have a link here, and pages of the edge may ask it', async () => {
    const link = { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'navigate', referer: 'https://docs.example/' }
    const follow = (dest: string) => edge.send(edge.url, { headers: { ...link, 'sec-fetch-dest': dest } })
    expect(await follow('document')).toMatchObject({ status: 200 })
    expect(await follow('iframe')).toMatchObject({ status: 403 })
    const page = { ...own(), 'sec-fetch-site': 'same-origin', referer: `${edge.url}/fleet` }
    expect(await edge.send(edge.url, { method: 'POST', headers: page })).toMatchObject({ status: 200 })
  })
})

test.each([{}, { 'sec-fetch-site': 'none', 'sec-fetch-mode': 'navigate' }])(
  'cron jobs run when a person asks for them, each of them: %j',
  async (headers) => {
    const { ran: before } = await edge.reach(edge.url)
    expect((await edge.send(edge.url, { path: CRONS, headers })).status).toBe(200)
    const { ran } = await edge.reach(edge.url)
    const { readProject } = await import('../../../src/cli/edge/project.ts')
    expect(ran.slice(before.length)).toEqual(expect.arrayContaining([...(await readProject()).crons]))
  },
)
