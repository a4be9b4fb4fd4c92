// The runner's own connections: what a real network does to them, TLS it trusts or not, proxies, and the tunnel's dial.

import { EventEmitter } from 'node:events'
import { rmSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import { type AddressInfo, connect, createServer as createTcpServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { createCa, createServerCertificate } from '../../../src/cli/ca/create.ts'
import { epochSeconds } from '../../../src/protocol/time.ts'
import { readConfig } from '../../../src/runner/config.ts'
import { Settings } from '../../../src/runner/environment/settings.ts'
import { type Identity, readIdentity } from '../../../src/runner/identity/identity.ts'
import { newRequestKey } from '../../../src/runner/identity/keys.ts'
import type { Network } from '../../../src/runner/net/connection.ts'
import { poster, type RequestResult } from '../../../src/runner/net/http.ts'
import { NO_PROXY_AT_ALL, proxyFor, readProxySettings } from '../../../src/runner/net/proxy.ts'
import { dialer } from '../../../src/runner/tunnel/dial.ts'
import { ReadySocket, type TunnelSocket } from '../../../src/runner/tunnel/socket.ts'
import { FakeControlPlane, problem } from '../../fakes/control-plane.ts'
import { scratchDir } from '../harness.ts'

const DIRECT: Network = { proxies: NO_PROXY_AT_ALL, extraRoots: () => null }
const never = new AbortController().signal

/** The first answer, or the complaint. */
const say = (url: string, network = DIRECT, timeout = 300): Promise<string> =>
  poster(network, timeout)(new URL(url), '{}', never).then((answer) =>
    answer.ok ? `HTTP ${answer.value.status}` : answer.error.why,
  )

const open: { close: () => unknown }[] = []
afterEach(() => {
  for (const one of open.splice(0)) one.close()
})

async function listen<T extends Server | ReturnType<typeof createTcpServer>>(server: T): Promise<number> {
  open.push(server)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return (server.address() as AddressInfo).port
}

describe('an attempt', () => {
  const served = async (answer: (socket: Socket) => void): Promise<string> => {
    const port = await listen(
      createTcpServer((socket) => socket.on('error', () => {}).once('data', () => answer(socket))),
    )
    return say(`http://127.0.0.1:${port}/api/enroll`)
  }

  test('that is never answered ends by itself (hang-headers)', async () => {
    expect(await served(() => {})).toBe('no answer within 0.3 s')
  })

  test('whose body stops ends by itself (hang-body)', async () => {
    expect(await served((socket) => socket.write('HTTP/1.1 200 OK\r\ncontent-length: 4000\r\n\r\n{"ver'))).toBe(
      'no answer within 0.3 s',
    )
  })

  test('whose body is cut off has no answer (http-200-truncated)', async () => {
    expect(await served((socket) => socket.end('HTTP/1.1 200 OK\r\ncontent-length: 4000\r\n\r\n{"ver'))).toMatch(
      /^127\.0\.0\.1:\d+: aborted$/,
    )
  })

  test('with an endless body ends at the limit', async () => {
    const endless = (socket: Socket): void => {
      socket.write('HTTP/1.1 200 OK\r\n\r\n')
      const more = () => {
        while (!socket.destroyed && socket.write('x'.repeat(65_536)));
      }
      socket.on('drain', more)
      more()
    }
    expect(await served(endless)).toMatch(/the answer is over 256 KiB$/)
  })

  test('with a connection that is refused says so, with the host (connect-refused)', async () => {
    expect(await say('http://127.0.0.1:9/api/enroll')).toBe('127.0.0.1:9: connect ECONNREFUSED 127.0.0.1:9')
  })

  test('for a name that cannot be looked up names it (dns-enotfound)', async () => {
    expect(await say('https://muster.invalid/api/enroll', DIRECT, 5000)).toContain('muster.invalid')
  })

  test('never follows a redirect, even one that keeps method and body (http-308)', async () => {
    let asked = 0
    const other = await listen(createServer((_request, response) => response.end(`${++asked}`)))
    const location = `http://127.0.0.1:${other}/api/enroll`
    const port = await listen(createServer((_request, response) => response.writeHead(308, { location }).end()))
    expect(await say(`http://127.0.0.1:${port}/api/enroll`)).toBe('HTTP 308')
    expect(asked).toBe(0)
  })
})

describe('TLS', () => {
  let plane: FakeControlPlane
  let root: string

  beforeAll(async () => {
    const now = epochSeconds(Math.floor(Date.now() / 1000))
    const ca = await createCa({ development: true, now })
    const { key, certificate } = await createServerCertificate({ key: ca.issuingKey, certificate: ca.issuing }, now)
    plane = await FakeControlPlane.start({ key, cert: certificate + ca.issuing })
    root = ca.root
  })
  afterAll(() => plane.stop())
  beforeEach(() => {
    plane.requests.length = 0
    plane.upgrades.length = 0
    plane.onUpgrade = () => undefined
  })

  test('of an unknown CA sends nothing and names RUNNER_CA_PEM (tls-intercept)', async () => {
    expect(await say(`${plane.url}/api/enroll`, DIRECT, 5000)).toMatch(
      /^the certificate of 127\.0\.0\.1:\d+ is not from a CA that this machine trusts \(SELF_SIGNED_CERT_IN_CHAIN\): if the CA is yours, set RUNNER_CA_PEM to its certificate$/,
    )
    expect(plane.requests).toEqual([])
  })

  test('of the CA in RUNNER_CA_PEM is trusted', async () => {
    expect(await say(`${plane.url}/nowhere`, { ...DIRECT, extraRoots: () => root }, 5000)).toBe('HTTP 404')
  })

  test('of a CA that comes into RUNNER_CA_PEM later is trusted from then on, for enrollment and tunnel', async () => {
    const [path, other] = [
      join(scratchDir(), 'ca.pem'),
      await createCa({ development: true, now: epochSeconds(Math.floor(Date.now() / 1000)) }),
    ]
    writeFileSync(path, other.root)
    const settings = new Settings({ RUNNER_CA_PEM: path })
    const { network } = readConfig({}, settings, {}, '/nonexistent')
    const post = poster(network, 5000)
    const ask = async () => {
      const answer = await post(new URL(`${plane.url}/nowhere`), '{}', never)
      return answer.ok ? answer.value.status : null
    }
    expect(await ask()).toBeNull()
    writeFileSync(path, root)
    expect(await ask()).toBe(404)
    for (const half of [root + root.slice(0, 100), '']) {
      writeFileSync(path, half)
      expect(await ask()).toBe(404)
    }
    rmSync(path)
    expect(await ask()).toBe(404)
  })

  test('of the right CA and the wrong host is not', async () => {
    const url = plane.url.replace('127.0.0.1', 'other.localhost')
    expect(await say(`${url}/api/enroll`, { ...DIRECT, extraRoots: () => root }, 5000)).toContain('other.localhost')
    expect(plane.requests).toEqual([])
  })

  test('through a proxy that HTTPS_PROXY names, with its credentials, and around it where NO_PROXY says', async () => {
    const asked: string[] = []
    const proxy = createServer()
    proxy.on('connect', (request, socket) => {
      asked.push(`${request.url} ${request.headers['proxy-authorization']}`)
      const through = connect(Number(new URL(plane.url).port), '127.0.0.1', () => {
        socket.write('HTTP/1.1 200 OK\r\n\r\n')
        through.pipe(socket).pipe(through)
      })
      socket.on('error', () => through.destroy())
      through.on('error', () => socket.destroy())
    })
    const port = await listen(proxy)
    const env = { HTTPS_PROXY: `http://user:p%40ss@127.0.0.1:${port}`, NO_PROXY: 'near.test' }
    const proxies = readProxySettings(env)
    if ('fault' in proxies) throw new Error(proxies.fault)
    // The name is the proxy's to look up; the certificate is not for it, so TLS ends there.
    const complaint = await say('https://far.test:8443/api/enroll', { proxies, extraRoots: () => root }, 5000)
    expect(complaint).toContain("far.test. is not in the cert's altnames")
    expect(asked).toEqual([`far.test:8443 Basic ${Buffer.from('user:p@ss').toString('base64')}`])
    expect(await say('https://near.test/api/enroll', { proxies, extraRoots: () => root }, 5000)).toContain('near.test')
    expect(asked).toHaveLength(1)
    expect(await say(`${plane.url}/nowhere`, { proxies, extraRoots: () => root }, 5000)).toBe('HTTP 404')
    expect(asked).toHaveLength(1)
  })

  test('through a proxy that refuses says which', async () => {
    const proxy = createServer()
    proxy.on('connect', (_request, socket) => socket.end('HTTP/1.1 407 No\r\n\r\n'))
    const proxies = { proxy: new URL(`http://127.0.0.1:${await listen(proxy)}`), except: [] }
    expect(await say('https://far.test/api/enroll', { proxies, extraRoots: () => null }, 5000)).toMatch(
      /^far\.test: the proxy 127\.0\.0\.1:\d+ answered CONNECT with 407$/,
    )
  })

  test('through a proxy that never answers ends with the attempt, its connection closed', async () => {
    const gone: Promise<unknown>[] = []
    const asked = Promise.withResolvers<void>()
    const proxy = createServer()
    proxy.on('connect', (_request, socket) => {
      socket.on('error', () => {}).resume()
      gone.push(new Promise((resolve) => socket.on('end', resolve)))
      asked.resolve()
    })
    const proxies = { proxy: new URL(`http://127.0.0.1:${await listen(proxy)}`), except: [] }
    expect(await say('https://far.test/api/enroll', { proxies, extraRoots: () => null })).toBe('no answer within 0.3 s')
    await asked.promise
    await gone[0]
  })

  describe('and the tunnel', () => {
    let identity: Identity
    const dial = (network: Network = { ...DIRECT, extraRoots: () => root }): Promise<RequestResult<TunnelSocket>> => {
      const url = new URL(plane.url)
      return dialer(url, network, poster(network), 'build-7')(identity, never)
    }

    beforeAll(async () => {
      const { key, csr, nonce } = await newRequestKey()
      const attestation = { mode: 'bootstrap-token' }
      const answer = await plane.issue({ body: { attestation, csr, challengeNonce: nonce } })
      const read = readIdentity({ ...answer, key })
      if (!read.ok) throw new Error(read.error)
      identity = read.value
    })

    test('shows the certificate in TLS, says hello and is ready', async () => {
      const dialed = await dial()
      expect(dialed.ok).toBe(true)
      expect(JSON.parse(plane.hellos.at(-1) ?? '')).toEqual({ type: 'hello', version: 1, instanceId: 'build-7' })
      expect(plane.upgrades[0]).not.toHaveProperty('muster-proof')
      if (dialed.ok) await dialed.value.close()
    })

    test('signs a challenge where the certificate is not seen, and does so at once the next time', async () => {
      plane.onUpgrade = (headers) =>
        headers['muster-proof'] === undefined ? problem(401, 'attestation_invalid') : undefined
      const url = new URL(plane.url)
      const network = { ...DIRECT, extraRoots: () => root }
      const connectTunnel = dialer(url, network, poster(network), 'build-7')
      for (const upgrades of [2, 3]) {
        const dialed = await connectTunnel(identity, never)
        expect(dialed.ok).toBe(true)
        expect(plane.upgrades).toHaveLength(upgrades)
        if (dialed.ok) await dialed.value.close()
      }
      const { verify, X509Certificate } = await import('node:crypto')
      const headers = plane.upgrades.at(-1)
      const leaf = new X509Certificate(Buffer.from(String(headers?.['client-cert']).slice(1, -1), 'base64'))
      const [challenge, signature] = String(headers?.['muster-proof']).split('.')
      const text = `muster-tunnel-v1\n${url.host}\n${challenge}`
      const signed = Buffer.from(signature ?? '', 'base64url')
      expect(verify('sha256', Buffer.from(text), { key: leaf.publicKey, dsaEncoding: 'ieee-p1363' }, signed)).toBe(true)
    })

    test('with a certificate that TLS does not take has failed, and throws nothing', async () => {
      const chain = '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n'
      const network = { ...DIRECT, extraRoots: () => root }
      const connectTunnel = dialer(new URL(plane.url), network, poster(network), 'build-7')
      expect(await connectTunnel({ ...identity, chain }, never)).toMatchObject({ ok: false, error: { status: null } })
    })

    test('that is stopped while a proxy keeps silent closes the connection to it', async () => {
      const stop = new AbortController()
      const closed = Promise.withResolvers<void>()
      const proxy = createServer()
      proxy.on('connect', (_request, socket) => {
        socket.on('error', () => {}).on('end', () => closed.resolve())
        socket.resume()
        stop.abort()
      })
      const proxies = { proxy: new URL(`http://127.0.0.1:${await listen(proxy)}`), except: [] }
      const network = { proxies, extraRoots: () => root }
      const connectTunnel = dialer(new URL('https://far.test'), network, poster(network), 'build-7')
      expect(await connectTunnel(identity, stop.signal)).toMatchObject({
        ok: false,
        error: { status: null, why: 'stopped' },
      })
      await closed.promise
    })

    test('tells a refusal by its code', async () => {
      plane.onUpgrade = () => problem(403, 'banned')
      expect(await dial()).toMatchObject({ error: { status: 403, problem: { code: 'banned' } } })
      plane.onUpgrade = () => ({ status: 502, body: '<html>' })
      expect(await dial()).toMatchObject({ error: { status: 502, problem: null } })
    })

    test.each<[string, string]>([
      ['is not JSON', 'hello'],
      ['is of another enrollment', '{"type":"ready","enrollmentId":"x","spiffeId":"y","runnerId":null,"notAfter":"z"}'],
      ['is another', '{"type":"drain"}'],
      ['is too long', JSON.stringify({ type: 'ready', enrollmentId: 'x'.repeat(5000) })],
    ])('whose first frame %s is not open', async (_name, frame) => {
      plane.onHello = (socket) => socket.send(frame)
      expect(await dial()).toMatchObject({ ok: false, error: { status: null } })
      plane.onHello = (socket) => plane.sendReady(socket)
    })

    test('of an unknown CA is not open, and names RUNNER_CA_PEM', async () => {
      expect(await dial(DIRECT)).toMatchObject({
        ok: false,
        error: { status: null, why: expect.stringContaining('RUNNER_CA_PEM') },
      })
    })

    test('tells why it closed, hears a drain, and takes anything else for a protocol error', async () => {
      const dialed = await dial()
      if (!dialed.ok) throw new Error('not open')
      let drained = 0
      dialed.value.onDrain = () => {
        drained += 1
      }
      const socket = plane.sockets.at(-1)
      const closed = new Promise<number>((resolve) => socket?.on('close', resolve))
      socket?.send('{"type":"drain"}')
      socket?.send('pong')
      socket?.send('{"type":"ready"}')
      expect(await closed).toBe(4000)
      expect(drained).toBe(1)
      const other = await dial()
      if (!other.ok) throw new Error('not open')
      plane.sockets.at(-1)?.close(4003)
      expect(await other.value.closed).toBe(4003)
    })
  })
})

describe('an open tunnel', () => {
  const openTunnel = () => {
    const sent: string[] = []
    const socket = Object.assign(new EventEmitter(), {
      readyState: 1,
      CLOSED: 3,
      send: (text: string) => sent.push(text),
      terminate: () => socket.emit('close', 1006),
      close: () => {},
    })
    let code: number | null = null
    void new ReadySocket(socket as never, {} as Identity).closed.then((one) => {
      code = one
    })
    return { sent, socket, code: () => code }
  }
  beforeEach(() => {
    vi.useFakeTimers()
  })
  afterEach(() => {
    vi.useRealTimers()
  })

  test('that nobody answers any more is given up within thirty seconds', async () => {
    const { sent, code } = openTunnel()
    await vi.advanceTimersByTimeAsync(30_000)
    expect(sent).toEqual(['ping'])
    expect(code()).toBe(1006)
    await vi.advanceTimersByTimeAsync(60_000)
    expect(sent).toEqual(['ping'])
  })

  test('whose pings are answered stays', async () => {
    const { sent, socket, code } = openTunnel()
    for (let second = 0; second < 600; second++) {
      const before = sent.length
      await vi.advanceTimersByTimeAsync(1000)
      if (sent.length > before) socket.emit('message', 'pong', false)
    }
    expect(code()).toBeNull()
    expect(sent.length).toBeGreaterThan(10)
  })
})

describe('NO_PROXY', () => {
  test.each([
    ['example.com', 'https://example.com', true],
    ['example.com', 'https://a.example.com', true],
    ['.example.com', 'https://a.example.com', true],
    ['*.example.com', 'https://a.example.com', true],
    ['example.com', 'https://notexample.com', false],
    ['example.com:8443', 'https://example.com:8443', true],
    ['example.com:8443', 'https://example.com', false],
    ['example.com:443', 'wss://example.com', true],
    ['10.0.0.1', 'https://10.0.0.1', true],
    ['[fd00::1]:443', 'https://[fd00::1]', true],
    ['fd00::1', 'https://[fd00::1]', true],
    ['*', 'https://anything.test', true],
    ['', 'https://anything.test', false],
    ['a.test, b.test', 'https://B.TEST', true],
  ])('%j and %s: around the proxy is %j', (except, url, around) => {
    const settings = readProxySettings({ HTTPS_PROXY: 'proxy.test:3128', NO_PROXY: except })
    if ('fault' in settings) throw new Error(settings.fault)
    expect(proxyFor(new URL(url), settings) === null).toBe(around)
  })

  test('a proxy of another kind is a mistake that quotes nothing', () => {
    expect(readProxySettings({ https_proxy: 'socks5://user:secret@proxy.test' })).toEqual({
      fault: 'https_proxy is not the URL of an HTTP proxy, such as http://proxy.example:3128',
    })
  })
})

test('a nonce is bound to the key that it is made with', async () => {
  const { nonceIsBoundTo } = await import('../../../src/protocol/nonce.ts')
  const { spkiOf } = await import('../../../src/runner/identity/keys.ts')
  const { key, nonce } = await newRequestKey()
  expect(await nonceIsBoundTo(nonce, spkiOf(key))).toBe(true)
})
