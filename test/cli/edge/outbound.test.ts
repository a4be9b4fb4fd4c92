// Tests requests of the Worker to other hosts where the local edge answers in their place.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo, Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { serverCertificate } from '../../../src/cli/edge/certificates.ts'
import { type Edge, startEdge } from '../../../src/cli/edge/start.ts'
import { stateFolder } from '../../../src/cli/edge/state.ts'
import { trustOf } from '../../end-to-end/edge.ts'
import { PROJECT } from '../../end-to-end/processes.ts'

interface Seen {
  readonly method: string
  readonly path: string
  readonly headers: Record<string, string | string[] | undefined>
  readonly body: string
}

const seen: Seen[] = []
const scratch = mkdtempSync(join(tmpdir(), 'muster-outbound-'))
const servers: Server[] = []
let edge: Edge

const listening = (server: Server): Promise<number> => {
  servers.push(server)
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () => resolve((server.address() as AddressInfo).port))
  })
}

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk)
  const { method = '', url: path = '', headers } = request
  seen.push({ method, path, headers, body: Buffer.concat(chunks).toString() })
  switch (path.split('?')[0]) {
    case '/moved':
      response.writeHead(302, { location: 'https://sts.test/elsewhere' }).end('moved')
      return
    case '/gzip':
      response.writeHead(200, { 'content-encoding': 'gzip', 'content-type': 'text/xml' }).end(gzipSync('<packed/>'))
      return
    case '/teapot':
      response.writeHead(418, 'Short and stout', { 'x-twice': ['a', 'b'], 'set-cookie': ['a=1', 'b=2'] }).end('tea')
      return
    case '/empty':
      response.writeHead(204).end()
      return
    case '/cut':
      response.writeHead(200, { 'content-length': 100 }).write('half')
      setTimeout(() => response.destroy(), 20)
      return
    default:
      response.end('here')
  }
}

beforeAll(async () => {
  const origin = await listening(createServer(answer))
  const { key, chain, caFile } = await serverCertificate(stateFolder(join(scratch, 'issuer')))
  const other = await serverCertificate(stateFolder(join(scratch, 'other')))
  const ca = readFileSync(other.caFile, 'utf8') + readFileSync(caFile, 'utf8')
  const privately = await listening(createTlsServer({ key, cert: chain }, answer))
  edge = await startEdge({
    port: 0,
    tlsPort: 0,
    persistTo: scratch,
    trust: trustOf([
      { issuer: `https://localhost:${privately}/id`, ca },
      { issuer: `https://127.0.0.1:${privately}`, ca: null },
      { issuer: 'https://moved.test', ca },
    ]),
    variables: {},
    origins: new Map([
      ['sts.test', new URL(`http://127.0.0.1:${origin}`)],
      ['moved.test', new URL(`https://localhost:${privately}`)],
      // Nothing listens there; a port that was just closed may be somebody else's by now.
      ['gone.test', new URL('http://127.0.0.1:1')],
    ]),
    rateLimits: false,
    log: () => {},
    entry: join(PROJECT, 'test/cli/edge/echo-worker.ts'),
  })
  ports = { origin, privately }
})
let ports = { origin: 0, privately: 0 }

afterAll(async () => {
  await edge.stop()
  for (const server of servers) server.close()
  rmSync(scratch, { recursive: true })
})

interface Fetched {
  readonly status?: number
  readonly headers: Record<string, string>
  readonly url?: string
  readonly body?: string
  readonly error?: string
}

async function ask(url: string, init: object = {}): Promise<Fetched> {
  seen.length = 0
  const asked = await fetch(new URL('/out', edge.url), { method: 'POST', body: JSON.stringify({ url, ...init }) })
  return (await asked.json()) as Fetched
}

test('method, path, query, headers and body arrive as they were sent, under the host’s own name', async () => {
  const body = 'Action=GetCallerIdentity&Version=2011-06-15'
  const headers = { authorization: 'AWS4-HMAC-SHA256 x', 'x-amz-date': '20260101T000000Z', 'content-type': 'a/b; c=d' }
  expect(await ask('https://sts.test/a%2Fb/?q=%20&r', { method: 'POST', headers, body })).toMatchObject({ status: 200 })
  expect(seen).toHaveLength(1)
  expect(seen[0]).toMatchObject({ method: 'POST', path: '/a%2Fb/?q=%20&r', body })
  expect(seen[0]?.headers).toMatchObject({ ...headers, host: 'sts.test', 'content-length': String(body.length) })
  expect(Object.keys(seen[0]?.headers ?? {}).filter((name) => name.startsWith('mf-'))).toEqual([])
})

test('any port of a mapped host is mapped, and its host header keeps the port', async () => {
  expect(await ask('https://sts.test:8443/x')).toMatchObject({ status: 200, body: 'here' })
  expect(seen[0]?.headers.host).toBe('sts.test:8443')
})

test('a redirect is the Worker’s to follow or not', async () => {
  const manual = await ask('https://sts.test/moved', { redirect: 'manual' })
  expect(manual).toMatchObject({ status: 302, body: 'moved', headers: { location: 'https://sts.test/elsewhere' } })
  expect(seen).toHaveLength(1)
  expect(await ask('https://sts.test/moved')).toMatchObject({ status: 200, url: 'https://sts.test/elsewhere' })
  expect(seen.map(({ path }) => path)).toEqual(['/moved', '/elsewhere'])
})

test('status, headers and compressed bodies come back as they were', async () => {
  expect(await ask('https://sts.test/teapot')).toMatchObject({
    status: 418,
    body: 'tea',
    headers: { 'x-twice': 'a, b' },
  })
  expect(await ask('https://sts.test/gzip')).toMatchObject({ status: 200, body: '<packed/>' })
  expect(await ask('https://sts.test/empty')).toMatchObject({ status: 204, body: '' })
  expect(await ask('https://sts.test/teapot', { method: 'HEAD' })).toMatchObject({ status: 418, body: '' })
})

test('a server that is away or breaks off is an error of the network, not an answer', async () => {
  expect((await ask('https://gone.test/')).error).toBeDefined()
  expect((await ask('https://sts.test/cut')).error).toBeDefined()
})

test('other hosts are asked directly', async () => {
  expect(await ask(`http://127.0.0.1:${ports.origin}/direct`)).toMatchObject({ status: 200, body: 'here' })
  expect(seen[0]?.headers.host).toBe(`127.0.0.1:${ports.origin}`)
})

test('the private CA of a cluster is trusted for its issuer’s host, and for no other', async () => {
  expect(await ask(`https://localhost:${ports.privately}/keys`)).toMatchObject({ status: 200, body: 'here' })
  expect((await ask(`https://127.0.0.1:${ports.privately}/keys`)).error).toBeDefined()
  expect(await ask('https://moved.test/keys')).toMatchObject({ status: 200, body: 'here' })
  expect(seen[0]?.headers.host).toBe('moved.test')
})
