// Tests what the comparison with other authorities rests on: what counts as a certificate, as a peer and as a goal met.

import 'reflect-metadata'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { connect, createServer, type Http2Server } from 'node:http2'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import * as x509 from '@peculiar/x509'
import { afterEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import { findProgram } from '../../bench/peers/find.ts'
import { call } from '../../bench/peers/grpc.ts'
import { type Authority, checkIssued, makeAuthority, makeKeyAndCsr } from '../../bench/peers/pki.ts'
import type { Way } from '../../bench/peers/product.ts'
import { goalsOf, type WayReport } from '../../bench/peers/report.ts'
import { measureRounds } from '../../bench/peers/rounds.ts'

const never = new AbortController().signal

async function sign(csr: string, issuer: Authority, notAfter: number): Promise<string> {
  const certificate = await x509.X509CertificateGenerator.create({
    publicKey: new x509.Pkcs10CertificateRequest(csr).publicKey,
    issuer: new x509.X509Certificate(issuer.certificate).subject,
    signingKey: issuer.keys.privateKey,
    signingAlgorithm: { name: 'ECDSA', hash: 'SHA-256' },
    notBefore: new Date(Date.now() - 60_000),
    notAfter: new Date(notAfter),
  })
  return `${certificate.toString('pem')}\n`
}

describe('a certificate that a peer gave', async () => {
  const root = await makeAuthority('root')
  const issuing = await makeAuthority('issuing', root)
  const { csr } = await makeKeyAndCsr('runner')
  const leaf = await sign(csr, issuing, Date.now() + 60_000)

  test('counts when it leads to the root of its product over what came with it', () => {
    expect(() => checkIssued({ certificate: leaf + issuing.certificate, csr }, root.certificate)).not.toThrow()
  })

  test('does not count for another key, without its chain, under another root, or expired', async () => {
    const other = (await makeKeyAndCsr('runner')).csr
    const whole = leaf + issuing.certificate
    expect(() => checkIssued({ certificate: whole, csr: other }, root.certificate)).toThrow('another key')
    expect(() => checkIssued({ certificate: leaf, csr }, root.certificate)).toThrow('leads to no root')
    const stranger = await makeAuthority('root')
    expect(() => checkIssued({ certificate: whole, csr }, stranger.certificate)).toThrow('leads to no root')
    const old = await sign(csr, root, Date.now() - 1000)
    expect(() => checkIssued({ certificate: old, csr }, root.certificate)).toThrow('not current')
  })
})

describe('the program of a peer', () => {
  afterEach(() => vi.unstubAllEnvs())
  const NAME = 'muster-test-peer'

  test('is taken from the folder MUSTER_PEERS, also where that is relative', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'muster-peers-test-'))
    onTestFinished(() => rmSync(folder, { recursive: true }))
    writeFileSync(join(folder, NAME), '#!/bin/sh\n', { mode: 0o755 })
    vi.stubEnv('MUSTER_PEERS', relative(process.cwd(), folder))
    const found = await findProgram(NAME, null, () => {}, never)
    expect(found).toEqual({ path: join(folder, NAME), from: 'MUSTER_PEERS' })
  })

  test('that cannot be had says where it was looked for, and why it was not built', async () => {
    vi.stubEnv('MUSTER_PEERS', '')
    const where = `${NAME} is neither on the PATH nor in the folder MUSTER_PEERS`
    await expect(findProgram(NAME, null, () => {}, never)).rejects.toThrow(`${where}, and its module is not served`)
    vi.stubEnv('PATH', '')
    const module = { path: 'example.com/peer', version: 'v1.0.0', program: '.', flags: [] }
    await expect(findProgram(NAME, module, () => {}, never)).rejects.toThrow('there is no go on the PATH')
  })
})

describe('a gRPC call', () => {
  /** Answers each request with a message and a status. */
  async function serve(message: string, status: string, words: string): Promise<Http2Server> {
    const server = createServer()
    server.on('stream', (stream) => {
      stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true })
      stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': status, 'grpc-message': words }))
      stream.end(Buffer.concat([Buffer.from([0, 0, 0, 0, message.length]), Buffer.from(message)]))
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => void server.close())
    return server
  }
  const ask = async (server: Http2Server) => {
    const session = connect(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
    return call(session, '/service/Method', Buffer.from('ask')).finally(() => session.close())
  }

  test('gives the message of an answer whose status is OK', async () => {
    expect(String(await ask(await serve('answer', '0', '')))).toBe('answer')
  })

  test('rejects with the words of another status', async () => {
    await expect(ask(await serve('answer', '7', 'no such token'))).rejects.toThrow('gRPC status 7: no such token')
  })
})

const spread = (median: number) => ({ min: median, median, max: median })
const report = (name: string, ms: number, emulation: WayReport['emulation'] = null): WayReport => ({
  ...{ pair: 'bootstrap token', name, proven: '', stored: '', cpuMs: spread(ms), certificatesPerCpuSecond: spread(0) },
  ...{ certificatesPerSecond: spread(0), p50Ms: spread(0), p99Ms: spread(0), othersPercent: spread(0) },
  ...{ residentMiB: 0, emulation },
})

test('a goal counts the emulation of D1 beside SPIRE and OpenBao, and not beside step-ca; a tie is not ahead', () => {
  const muster = [report('Muster', 4, 'counted'), report('Muster', 2, 'subtracted')]
  const peers = [report('step-ca sign', 3), report('SPIRE AttestAgent', 3), report('OpenBao', 4)]
  expect(goalsOf([...muster, ...peers]).map(({ peer, musterMs, holds }) => [peer, musterMs, holds])).toEqual([
    ['step-ca sign', 2, true],
    ['SPIRE AttestAgent', 4, false],
    ['OpenBao', 4, false],
  ])
})

test('a way of a peer that fails is left out with the reason, and the others are measured', async () => {
  const root = await makeAuthority('root')
  const { csr } = await makeKeyAndCsr('runner')
  const certificate = await sign(csr, root, Date.now() + 60_000)
  const way = (name: string, work: Way['prepare']): Way => ({
    ...{ pair: 'renewal', name, proven: '', stored: '', servers: [], roots: root.certificate, prepare: work },
  })
  const good = way('good', async (count) => Array.from({ length: count }, () => async () => ({ certificate, csr })))
  const bad = way('bad', async () => {
    throw new Error('it has ended')
  })
  const { measured, missing } = await measureRounds({
    muster: [],
    peers: [bad, good],
    emulation: { measure: async () => 0, stop: async () => {} },
    ...{ requests: 3, runs: 2, connections: 2, ending: never, say: () => {} },
  })
  expect(missing).toEqual([{ name: 'bad', why: 'renewal: it has ended' }])
  expect(measured.map(({ way: { name }, runs }) => [name, runs.length])).toEqual([['good', 2]])
})
