// Tests the runner's connections: network failures, trusted and untrusted TLS, proxies, and the dial of the tunnel.

import { EventEmitter } from 'node:events'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import { type AddressInfo, createServer as createTcpServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { createCa, createServerCertificate } from '../../../src/cli/ca/create.ts'
import type { Network } from '../../../src/node/http-client.ts'
import { epochSeconds } from '../../../src/protocol/time.ts'
import { readConfig } from '../../../src/runner/config.ts'
import { Settings } from '../../../src/runner/environment/settings.ts'
import { type Identity, readIdentity } from '../../../src/runner/identity/identity.ts'
import { newRequestKey } from '../../../src/runner/identity/keys.ts'
import { poster, type RequestResult } from '../../../src/runner/net/http.ts'
import { dialer } from '../../../src/runner/tunnel/dial.ts'
import { ReadySocket, type TunnelSocket } from '../../../src/runner/tunnel/socket.ts'
import { PROJECT } from '../../end-to-end/processes.ts'
import { FakeControlPlane, problem } from '../../fakes/control-plane.ts'
import { directly, ForwardProxy, rulesOf, selfSigned } from '../../fakes/forward-proxy.ts'
import { scratchDir } from '../harness.ts'

const never = new AbortController().signal

/** The first answer, or the complaint. */
const say = (url: string, network = directly, timeout = 300): Promise<string> =>
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
    expect(await say('https://muster.invalid/api/enroll', directly, 5000)).toContain('muster.invalid')
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

  const startProxy = async (): Promise<ForwardProxy> => {
    const proxy = await ForwardProxy.start(Number(new URL(plane.url).port))
    open.push(proxy)
    return proxy
  }
  const through = ({ port }: ForwardProxy) => rulesOf({ HTTPS_PROXY: `127.0.0.1:${port}` })

  test('of an unknown CA sends nothing and names RUNNER_CA_PEM (tls-intercept)', async () => {
    expect(await say(`${plane.url}/api/enroll`, directly, 5000)).toMatch(
      /^the certificate of 127\.0\.0\.1:\d+ is not from a CA that this machine trusts \(SELF_SIGNED_CERT_IN_CHAIN\): if the CA is yours, set RUNNER_CA_PEM to its certificate$/,
    )
    expect(plane.requests).toEqual([])
  })

  test('of the CA in RUNNER_CA_PEM is trusted', async () => {
    expect(await say(`${plane.url}/nowhere`, { ...directly, extraRoots: () => root }, 5000)).toBe('HTTP 404')
  })

  test('of a CA that comes into RUNNER_CA_PEM later is trusted from then on, for enrollment and tunnel', async () => {
    const [path, other] = [
      join(scratchDir(), 'ca.pem'),
      await createCa({ development: true, now: epochSeconds(Math.floor(Date.now() / 1000)) }),
    ]
    writeFileSync(path, other.root)
    const settings = new Settings({ RUNNER_CA_PEM: path })
    const { network } = readConfig({}, settings, {}, () => {}, '/nonexistent')
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

  test('of a CA beside which one certificate cannot be read is trusted, with a warning that names the place', async () => {
    const path = join(scratchDir(), 'ca.pem')
    writeFileSync(path, `# ours\n${root}-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n${root}`)
    const settings = new Settings({ RUNNER_CA_PEM: path })
    const { network } = readConfig({}, settings, {}, () => {}, '/nonexistent')
    const line = root.split('\n').length + 1
    expect(settings.warnings).toEqual([
      `RUNNER_CA_PEM: block 2 at line ${line} cannot be read as a certificate: it is passed over`,
    ])
    expect(settings.mistakes.join()).not.toContain('RUNNER_CA_PEM')
    expect(await say(`${plane.url}/nowhere`, network, 5000)).toBe('HTTP 404')
  })

  test('of the right CA and the wrong host is not', async () => {
    const url = plane.url.replace('127.0.0.1', 'other.localhost')
    expect(await say(`${url}/api/enroll`, { ...directly, extraRoots: () => root }, 5000)).toContain('other.localhost')
    expect(plane.requests).toEqual([])
  })

  test('through a proxy that HTTPS_PROXY names, with its credentials, and around it where NO_PROXY says', async () => {
    const proxy = await startProxy()
    const env = { HTTPS_PROXY: `http://user:p%40ss@127.0.0.1:${proxy.port}`, NO_PROXY: 'near.test' }
    const network = { ...directly, rules: rulesOf(env), extraRoots: () => root }
    // The name is the proxy's to look up; the certificate is not for it, so TLS ends there.
    const complaint = await say('https://far.test:8443/api/enroll', network, 5000)
    expect(complaint).toContain("far.test. is not in the cert's altnames")
    expect(proxy.asked).toEqual(['far.test:8443 user:p@ss'])
    expect(await say('https://near.test/api/enroll', network, 5000)).toContain('near.test')
    expect(await say(`${plane.url}/nowhere`, network, 5000)).toBe('HTTP 404')
    expect(proxy.asked).toHaveLength(1)
  })

  test('names the proxy that refuses', async () => {
    const proxy = await startProxy()
    proxy.answer = (socket) => socket.end('HTTP/1.1 407 No\r\n\r\n')
    expect(await say('https://far.test/api/enroll', { ...directly, rules: through(proxy) }, 5000)).toMatch(
      /^far\.test: the proxy 127\.0\.0\.1:\d+ \(HTTPS_PROXY\) refused CONNECT with 407: /,
    )
  })

  test('through a proxy that never answers ends with the attempt, its connection closed', async () => {
    const proxy = await startProxy()
    const closed = Promise.withResolvers<void>()
    proxy.answer = (socket) => socket.resume().on('end', () => closed.resolve())
    expect(await say('https://far.test/api/enroll', { ...directly, rules: through(proxy) })).toMatch(
      /^far\.test: the proxy 127\.0\.0\.1:\d+ \(HTTPS_PROXY\) does not answer CONNECT: no answer in time$/,
    )
    await closed.promise
  })

  describe('and the tunnel', () => {
    let identity: Identity
    const dial = (network: Network = { ...directly, extraRoots: () => root }): Promise<RequestResult<TunnelSocket>> => {
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
      const { version } = JSON.parse(readFileSync(join(PROJECT, 'package.json'), 'utf8'))
      const hello = { type: 'hello', version: 1, instanceId: 'build-7', agent: `muster/${version}` }
      expect(JSON.parse(plane.hellos.at(-1) ?? '')).toEqual(hello)
      expect(plane.upgrades[0]).not.toHaveProperty('muster-proof')
      if (dialed.ok) await dialed.value.close()
    })

    test('signs a challenge where the certificate is not seen, and does so at once the next time', async () => {
      plane.onUpgrade = (headers) =>
        headers['muster-proof'] === undefined ? problem(401, 'attestation_invalid') : undefined
      const url = new URL(plane.url)
      const network = { ...directly, extraRoots: () => root }
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

    test('with a certificate that TLS cannot load fails without an exception', async () => {
      const chain = '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n'
      const network = { ...directly, extraRoots: () => root }
      const connectTunnel = dialer(new URL(plane.url), network, poster(network), 'build-7')
      expect(await connectTunnel({ ...identity, chain }, never)).toMatchObject({ ok: false, error: { status: null } })
    })

    test('opens through a proxy, and its certificate is seen behind it', async () => {
      const tls = await selfSigned({ type: 'dns', value: 'far.test' })
      const far = await FakeControlPlane.start(tls)
      const proxy = await ForwardProxy.start(Number(new URL(far.url).port))
      open.push(proxy, { close: () => far.stop() })
      far.enrollmentId = identity.enrollmentId
      const network = { ...directly, rules: through(proxy), extraRoots: () => tls.cert }
      const opened = await dialer(new URL('https://far.test'), network, poster(network), 'build-7')(identity, never)
      expect(opened.ok).toBe(true)
      if (opened.ok) await opened.value.close()
      expect(proxy.asked).toEqual(['far.test:443'])
      expect(far.upgrades[0]).not.toHaveProperty('muster-proof')
    })

    test('that is stopped while a proxy keeps silent closes the connection to it', async () => {
      const stop = new AbortController()
      const closed = Promise.withResolvers<void>()
      const proxy = await startProxy()
      proxy.answer = (socket) => {
        socket.resume().on('end', () => closed.resolve())
        stop.abort()
      }
      const network = { ...directly, rules: through(proxy) }
      const connectTunnel = dialer(new URL('https://far.test'), network, poster(network), 'build-7')
      expect(await connectTunnel(identity, stop.signal)).toMatchObject({
        ok: false,
        error: { status: null, why: 'stopped' },
      })
      await closed.promise
    })

    test('reports a refusal with its code', async () => {
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
      expect(await dial(directly)).toMatchObject({
        ok: false,
        error: { status: null, why: expect.stringContaining('RUNNER_CA_PEM') },
      })
    })

    test('reports why it closed, accepts a drain, and treats any other frame as a protocol error', async () => {
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

  test('whose pings are not answered is closed within thirty seconds', async () => {
    const { sent, code } = openTunnel()
    await vi.advanceTimersByTimeAsync(30_000)
    expect(sent).toEqual(['ping'])
    expect(code()).toBe(1006)
    await vi.advanceTimersByTimeAsync(60_000)
    expect(sent).toEqual(['ping'])
  })

  test('whose pings are answered stays open', async () => {
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

test('a nonce is bound to the key that it is made with', async () => {
  const { nonceIsBoundTo } = await import('../../../src/protocol/nonce.ts')
  const { spkiOf } = await import('../../../src/runner/identity/keys.ts')
  const { key, nonce } = await newRequestKey()
  expect(await nonceIsBoundTo(nonce, spkiOf(key))).toBe(true)
})
