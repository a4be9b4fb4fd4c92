// Tests that whatever a peer sends (a control plane, a proxy, who is in their place) is a failed attempt and never an
// exception: an error that nobody catches fails the run.

import { createHash } from 'node:crypto'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { createServer as createTlsServer } from 'node:tls'
import fc from 'fast-check'
import { afterEach, beforeAll, describe, expect, test } from 'vitest'
import type { Network } from '../../../src/node/http-client.ts'
import { type Identity, readIdentity } from '../../../src/runner/identity/identity.ts'
import { newRequestKey } from '../../../src/runner/identity/keys.ts'
import { poster, type RequestResult } from '../../../src/runner/net/http.ts'
import { dialer } from '../../../src/runner/tunnel/dial.ts'
import type { TunnelSocket } from '../../../src/runner/tunnel/socket.ts'
import { FakeControlPlane } from '../../fakes/control-plane.ts'
import { directly, rulesOf, type SelfSigned, selfSigned } from '../../fakes/forward-proxy.ts'

const SEED = Number(process.env.SEED ?? Date.now() % 2 ** 31)
const never = new AbortController().signal

let identity: Identity
let tls: SelfSigned
beforeAll(async () => {
  console.info(`seed ${SEED}`)
  const plane = await FakeControlPlane.start()
  const { key, csr, nonce } = await newRequestKey()
  const answer = await plane.issue({ body: { attestation: { mode: 'bootstrap-token' }, csr, challengeNonce: nonce } })
  const read = readIdentity({ ...answer, key })
  if (!read.ok) throw new Error(read.error)
  identity = read.value
  tls = await selfSigned({ type: 'dns', value: 'far.test' }, { type: 'ip', value: '127.0.0.1' })
  await plane.stop()
})

const servers: Server[] = []
afterEach(() => {
  for (const server of servers.splice(0)) server.close()
})

type Answer = (head: string, socket: Socket) => void

/** A server on loopback that gives each request, once its head is there, to `answer`; its port. */
async function serve(answer: Answer, secure = false): Promise<number> {
  const onConnection = (socket: Socket): void => {
    let head = ''
    socket.on('error', () => {})
    socket.on('data', (chunk) => {
      const before = head
      head += chunk.toString('latin1')
      if (!before.includes('\r\n\r\n') && head.includes('\r\n\r\n')) answer(head, socket)
    })
  }
  const server = secure ? createTlsServer(tls, onConnection) : createServer(onConnection)
  server.on('tlsClientError', () => {})
  servers.push(server)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return (server.address() as AddressInfo).port
}

const json = (body: string, status = '200 OK'): string =>
  `HTTP/1.1 ${status}\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`
const GOOD_CHALLENGE = json('{"challenge":"abc","expiresAt":"2026-01-01T00:00:00Z"}')

/** What a dial gives where the challenge and then the upgrade are answered so, and the connection ends. */
async function dial(challenge: string | Buffer, upgrade: (key: string) => string | Buffer = () => '') {
  const port = await serve((head, socket) => {
    if (head.startsWith('POST')) return socket.end(challenge)
    return socket.end(upgrade(/sec-websocket-key: (\S+)/i.exec(head)?.[1] ?? ''))
  })
  const url = new URL(`http://127.0.0.1:${port}`)
  return dialer(url, directly, poster(directly), 'build-7')(identity, never)
}

async function isClosed(result: RequestResult<TunnelSocket>): Promise<void> {
  if (!result.ok) return
  result.value.onDrain = () => {}
  await result.value.closed
}

describe('the answer to a challenge', () => {
  const withChallenge = (challenge: unknown): string => json(JSON.stringify({ challenge, expiresAt: 'z' }))

  test.each<[string, string]>([
    ['has a line end', withChallenge('abc\r\nx-more: 1')],
    ['has a line feed', withChallenge('abc\n')],
    ['has a null', withChallenge('abc\0')],
    ['has no ASCII', withChallenge('ä\u{1f600}')],
    ['has a half of a character', json('{"challenge":"\\ud800","expiresAt":"z"}')],
    ['has a dot', withChallenge('a.b')],
    ['is empty', withChallenge('')],
    ['is long', withChallenge('a'.repeat(100_000))],
    ['is a number', withChallenge(7)],
    ['is a list', withChallenge(['abc'])],
    ['is null', withChallenge(null)],
    ['is missing', json('{}')],
    ['is no object', json('[]')],
    ['is no JSON', json('<html>')],
    ['is nested', json('['.repeat(10_000))],
    ['is a redirect', 'HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:9/\r\ncontent-length: 0\r\n\r\n'],
    ['is an upgrade', 'HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n'],
    ['is not there', 'HTTP/1.1 204 No Content\r\n\r\n'],
  ])('that %s', async (_name, answer) => {
    expect(await dial(answer)).toMatchObject({ ok: false, error: { problem: null } })
  })
})

/** RFC 6455 §4.2.2. */
const accepted = (key: string): string =>
  `HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-accept: ${createHash(
    'sha1',
  )
    .update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`)
    .digest('base64')}\r\n\r\n`
const frame = (first: number, payload: string | Buffer): Buffer =>
  Buffer.concat([Buffer.from([first, Buffer.byteLength(payload)]), Buffer.from(payload)])
const TEXT = 0x81
const CLOSE = 0x88

describe('an upgrade', () => {
  test.each<[string, (key: string) => string | Buffer]>([
    ['that ends at once', () => ''],
    ['without an accept', () => 'HTTP/1.1 101 x\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n'],
    ['for another key', () => accepted('x')],
    ['with an extension', (key) => accepted(key).replace('\r\n\r\n', '\r\nsec-websocket-extensions: x\r\n\r\n')],
    ['with a protocol', (key) => accepted(key).replace('\r\n\r\n', '\r\nsec-websocket-protocol: x\r\n\r\n')],
    ['to something else', () => 'HTTP/1.1 101 x\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n'],
    ['in HTTP/1.0', (key) => accepted(key).replace('1.1', '1.0')],
    ['that is no HTTP', () => 'SSH-2.0-OpenSSH\r\n'],
    ['with a header that is none', () => 'HTTP/1.1 101 x\r\n: \r\n\r\n'],
    ['with endless headers', () => `HTTP/1.1 101 x\r\nx: ${'x'.repeat(100_000)}\r\n\r\n`],
    ['behind many interim answers', () => 'HTTP/1.1 103 x\r\n\r\n'.repeat(1000)],
    ['that is redirected', () => 'HTTP/1.1 302 x\r\nlocation: ws://127.0.0.1:9/\r\ncontent-length: 0\r\n\r\n'],
    ['refused with a long body', () => json(`"${'x'.repeat(100_000)}"`, '403 No')],
    ['refused with half a body', () => json('{"code":"banned"}', '403 No').slice(0, -3)],
    ['refused with an odd problem', () => json('{"code":{"toString":1},"detail":[]}', '403 No')],
    ['then a frame that is masked', (key) => Buffer.concat([Buffer.from(accepted(key)), frame(TEXT, '').fill(0xff)])],
    ['then a frame of reserved bits', (key) => Buffer.concat([Buffer.from(accepted(key)), frame(0xf1, 'x')])],
    [
      'then a frame of 2^63 bytes',
      (key) => Buffer.concat([Buffer.from(accepted(key)), Buffer.from('817f8000000000000000', 'hex')]),
    ],
    [
      'then text that is no UTF-8',
      (key) => Buffer.concat([Buffer.from(accepted(key)), frame(TEXT, Buffer.from([0xff]))]),
    ],
    [
      'then a close code that is none',
      (key) => Buffer.concat([Buffer.from(accepted(key)), frame(CLOSE, Buffer.from([0, 1]))]),
    ],
    ['then half a close code', (key) => Buffer.concat([Buffer.from(accepted(key)), frame(CLOSE, 'x')])],
    [
      'then a close reason that is no UTF-8',
      (key) => Buffer.concat([Buffer.from(accepted(key)), frame(CLOSE, Buffer.from([15, 163, 255]))]),
    ],
    ['then half a frame', (key) => Buffer.concat([Buffer.from(accepted(key)), frame(TEXT, 'hello').subarray(0, 4)])],
  ])('%s', async (_name, upgrade) => {
    expect(await dial(GOOD_CHALLENGE, upgrade)).toMatchObject({ ok: false })
  })

  test('whose ready frame has a drain right behind it is drained', async () => {
    const ready = JSON.stringify({
      type: 'ready',
      enrollmentId: identity.enrollmentId,
      spiffeId: 's',
      runnerId: null,
      notAfter: 'z',
    })
    const header = Buffer.from([TEXT, 126, ready.length >> 8, ready.length & 255])
    const opened = await dial(GOOD_CHALLENGE, (key) =>
      Buffer.concat([Buffer.from(accepted(key)), header, Buffer.from(ready), frame(TEXT, '{"type":"drain"}')]),
    )
    if (!opened.ok) throw new Error(opened.error.why)
    let drained = 0
    opened.value.onDrain = () => {
      drained += 1
    }
    expect(drained).toBe(1)
    expect(await opened.value.closed).toBe(1006)
  })
})

/** A good answer with some of its bytes changed, put in or taken out. */
const spoiled = (good: string): fc.Arbitrary<Buffer> =>
  fc
    .array(fc.record({ at: fc.nat(good.length), cut: fc.nat(4), put: fc.uint8Array({ maxLength: 8 }) }), {
      minLength: 1,
      maxLength: 4,
    })
    .map((changes) =>
      changes.reduce(
        (bytes, { at, cut, put }) => Buffer.concat([bytes.subarray(0, at), put, bytes.subarray(at + cut)]),
        Buffer.from(good, 'latin1'),
      ),
    )
const anything = fc.uint8Array({ maxLength: 200 }).map((bytes) => Buffer.from(bytes))
const RUNS = { numRuns: 60, seed: SEED }

test('no bytes in place of a challenge, an upgrade or a ready frame throw', async () => {
  const ready = '{"type":"ready","enrollmentId":"x","spiffeId":"y","runnerId":null,"notAfter":"z"}'
  await fc.assert(
    fc.asyncProperty(
      fc.oneof(fc.constant(Buffer.from(GOOD_CHALLENGE)), spoiled(GOOD_CHALLENGE), anything),
      fc.oneof(spoiled(accepted('KEY')), anything, spoiled(frame(TEXT, ready).toString('latin1'))),
      fc.boolean(),
      async (challenge, upgrade, isAccepted) => {
        const opened = await dial(challenge, (key) =>
          isAccepted ? Buffer.concat([Buffer.from(accepted(key)), upgrade]) : upgrade,
        )
        await isClosed(opened)
      },
    ),
    RUNS,
  )
})

test('no bytes in place of an answer to a POST throw', async () => {
  const problem = json('{"code":"banned","detail":"d","requestId":"r","serverTime":"2026-01-01T00:00:00Z"}', '403 No')
  await fc.assert(
    fc.asyncProperty(fc.oneof(spoiled(problem), anything), async (answer) => {
      const port = await serve((_head, socket) => socket.end(answer))
      const result = await poster(directly, 2000)(new URL(`http://127.0.0.1:${port}/api/enroll`), '{}', never)
      expect(typeof result.ok).toBe('boolean')
    }),
    RUNS,
  )
})

describe.each([
  ['http', false],
  ['https', true],
])('an %s proxy', (scheme, secure) => {
  const through = (port: number): Network => ({
    ...directly,
    rules: rulesOf({ HTTPS_PROXY: `${scheme}://127.0.0.1:${port}` }),
    extraRoots: () => tls.cert,
  })
  const ask = async (answer: Answer): Promise<string> => {
    const network = through(await serve(answer, secure))
    const url = new URL('https://far.test/api/enroll')
    const answers = await Promise.all([
      poster(network, 2000)(url, '{}', never),
      dialer(url, network, poster(network, 2000), 'build-7')(identity, never),
    ])
    return answers.map((one) => (one.ok ? 'an answer' : one.error.why)).join('\n')
  }
  const OK = 'HTTP/1.1 200 Connection established\r\n\r\n'

  test.each<[string, Answer, RegExp]>([
    ['closes after its 200', (_, socket) => socket.end(OK), /far\.test: /],
    ['hangs up after its 200', (_, socket) => socket.write(OK, () => socket.destroy()), /far\.test: /],
    ['sends bytes with its 200', (_, socket) => socket.end(`${OK}hello, this is no TLS`), /far\.test: /],
    ['answers in HTTP/1.0', (_, socket) => socket.end(OK.replace('1.1', '1.0')), /far\.test: /],
    [
      'switches protocols',
      (_, socket) => socket.end('HTTP/1.1 101 x\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n'),
      /101/,
    ],
    ['sends interim answers', (_, socket) => socket.end('HTTP/1.1 100 Continue\r\n\r\n'), /refused CONNECT with 100/],
    ['answers with 999', (_, socket) => socket.end('HTTP/1.1 999 x\r\n\r\n'), /refused CONNECT with 999/],
    ['is no HTTP', (_, socket) => socket.end('SSH-2.0-x\r\n'), /does not answer CONNECT: Parse Error/],
    [
      'has endless headers',
      (_, socket) => socket.end(`HTTP/1.1 200 x\r\nx: ${'x'.repeat(100_000)}`),
      /does not answer CONNECT/,
    ],
  ])('that %s', async (_name, answer, why) => {
    expect(await ask(answer)).toMatch(why)
  })

  test('throws for no bytes', async () => {
    await fc.assert(
      fc.asyncProperty(fc.oneof(spoiled(OK), anything), async (answer) => {
        await ask((_, socket) => socket.end(answer))
      }),
      { numRuns: 12, seed: SEED },
    )
  })
})
