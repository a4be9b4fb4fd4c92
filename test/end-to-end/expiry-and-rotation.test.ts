// Tests identities on a running edge through a real expiry, a kill -9, a ban and a rotation of the CA.

import { X509Certificate } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  addSeconds,
  type EpochSeconds,
  seconds,
  systemClock,
  toEpochMilliseconds,
  toEpochSeconds,
} from '../../src/protocol/time.ts'
import { uuidv7 } from '../../src/protocol/uuid.ts'
import { Runner } from '../../src/runner/index.ts'
import { forgeCa, forgeLeaf, type Issuer, pem } from '../fakes/ca-forge.ts'
import { makeRequester } from '../fakes/requester.ts'
import { type EdgeProcess, type RunningEdge, startEdge, startEdgeProcess } from './edge.ts'
import { type FleetClient, fleetClient, type Identity } from './fleet-client.ts'
import { runMuster } from './muster.ts'

const scratch = mkdtempSync(join(tmpdir(), 'muster-lives-'))
afterAll(() => rmSync(scratch, { recursive: true }))
const path = (...names: string[]) => join(scratch, ...names)

async function withEdge<T>(
  setup: Parameters<typeof startEdge>[0],
  work: (client: FleetClient, edge: RunningEdge) => Promise<T>,
): Promise<T> {
  const edge = await startEdge(setup)
  const client = fleetClient(edge)
  try {
    return await work(client, edge)
  } finally {
    await client.close()
    await edge.stop()
  }
}

describe('on one edge with a CA of ours', () => {
  let issuer: Issuer
  let killed: EdgeProcess
  let edge: RunningEdge
  let client: FleetClient
  let token: string
  let setup: Parameters<typeof startEdge>[0]

  beforeAll(async () => {
    const root = await forgeCa()
    issuer = await forgeCa({ issuer: root })
    setup = { persistTo: path('one'), vars: { CA_KEY: issuer.keyPem, CA_CERT: issuer.pem + root.pem } }
    killed = await startEdgeProcess(setup)
    edge = killed
    client = fleetClient(edge)
    token = (await client.mint('--runner-id', 'build-7')).token
  })
  afterAll(async () => {
    await client.close()
    await edge.stop()
  })

  async function provisioned(
    life: number,
  ): Promise<Identity & { readonly id: string; readonly notAfter: EpochSeconds }> {
    const id = uuidv7(systemClock())
    const notAfter = addSeconds(toEpochSeconds(systemClock()), seconds(life))
    const { keys, der } = await forgeLeaf(issuer, {
      subject: [{ O: ['acme'] }, { OU: ['provisioned:'] }, { CN: [id] }],
      notBefore: new Date(Date.now() - 60_000),
      notAfter: new Date(toEpochMilliseconds(notAfter)),
    })
    return { id, notAfter, keys: keys as Identity['keys'], certificate: pem('CERTIFICATE', der) }
  }

  test('a runner with a provisioned certificate renews, restarts with its file, and renews and connects again', async () => {
    // Renewed when two thirds have passed.
    const { id, certificate, keys } = await provisioned(16)
    const key = pem('PRIVATE KEY', new Uint8Array(await crypto.subtle.exportKey('pkcs8', keys.privateKey)))
    const env = {
      RUNNER_ENROLL_URL: edge.tlsUrl,
      RUNNER_CERT_PEM: certificate,
      RUNNER_KEY_PEM: key,
      RUNNER_CA_PEM: readFileSync(edge.caFile, 'utf8'),
    }
    const outcomes = () =>
      edge.lines.flatMap((line) => {
        const event = JSON.parse(line)
        return event.enrollmentId === id ? [event.outcome] : []
      })
    for (let boot = 1; boot <= 2; boot++) {
      const runner = new Runner({ env })
      const renewed = new Promise((resolve) => runner.once('renewed', resolve))
      await runner.start()
      await renewed
      while (outcomes().length < boot * 3) await sleep(50)
      await runner.stop()
    }
    const life = ['connected', 'renewed', 'connected']
    expect(outcomes()).toEqual([...life, ...life])
  })

  test('a tunnel ends with its certificate, and within the grace the runner renews and is back', async () => {
    // Long enough to connect with on a busy machine.
    const { notAfter, ...short } = await provisioned(4)
    const tunnel = await client.connect(short)
    expect(tunnel.ready).toMatchObject({ type: 'ready', spiffeId: 'spiffe://rootpilot/tenant/acme/runner' })
    expect(await tunnel.closed).toBe(4001)
    while (toEpochSeconds(systemClock()) <= notAfter) await sleep(50)
    await expect(client.connect(short)).rejects.toThrow('refused with 401')
    const renewed = await client.renew(short)
    expect(renewed.status).toBe(200)
    const back = await client.connect(renewed)
    expect(back.ready).toMatchObject({ notAfter: renewed.json.notAfter })
    back.socket.close()
  })

  test('a ban closes the tunnel and refuses the renewal; lifted, the runner goes on', async () => {
    const identity = await client.enroll(token)
    const tunnel = await client.connect(identity)
    const whom = ['--enrollment', identity.enrollmentId]
    const banned = await edge.muster('ban', ...whom, '--note', 'lost laptop', '--json')
    expect(JSON.parse(banned.stdout)).toMatchObject({ kind: 'enrollment', value: identity.enrollmentId, runners: 1 })
    await client.cron()
    expect(await tunnel.closed).toBe(4003)
    expect((await client.renew(identity)).json.code).toBe('banned')
    expect(JSON.parse((await edge.muster('bans', '--json')).stdout)).toMatchObject([{ note: 'lost laptop' }])
    expect((await edge.muster('unban', ...whom)).code).toBe(0)
    expect(await edge.muster('unban', ...whom)).toMatchObject({ code: 1 })
  })

  test('a drain reaches the runner as a frame', async () => {
    const tunnel = await client.connect(await client.enroll(token))
    const frame = new Promise<string>((resolve) => tunnel.socket.once('message', (data) => resolve(String(data))))
    const { enrollmentId } = tunnel.ready
    expect((await edge.muster('drain', '--enrollment', String(enrollmentId))).code).toBe(0)
    await client.cron()
    expect(await frame).toBe('{"type":"drain"}')
    tunnel.socket.close()
  })

  test('wrong arguments of ban, unban and drain are refused in one line', async () => {
    const refusals: [string[], string][] = [
      [['ban'], 'name exactly one of'],
      [['ban', '--tenant', 'acme', '--runner-id', 'a'], 'name exactly one of'],
      [['ban', '--enrollment', 'x'], '--enrollment "x"'],
      [['ban', '--tenant', 'Acme'], '--tenant "Acme"'],
      [['ban', '--identity', ''], '--identity ""'],
      [['unban', '--tenant', 'globex'], '"globex"'],
      [['drain', '--runner-id', 'nobody'], '"nobody"'],
    ]
    for (const [args, message] of refusals) {
      const { code, stderr, stdout } = await edge.muster(...args)
      expect([code, stdout, stderr.trim().split('\n').length], stderr).toEqual([1, '', 1])
      expect(stderr).toContain(message)
    }
  })

  test('kill -9 in the middle of renewals loses no lineage', async () => {
    const runners = await Promise.all(Array.from({ length: 6 }, () => client.enroll(token)))
    // Each runner renews over and over with the newest certificate that it got, until the edge is gone under it.
    const stuck = runners.map(async (first) => {
      let newest: Identity = first
      for (;;) {
        const requester = await makeRequester()
        const body = await client.renewalBody(newest, requester)
        const answered = await client.post(body).catch(() => null)
        if (answered === null) return { body, requester }
        expect(answered.status).toBe(200)
        newest = { certificate: answered.json.certificate, keys: requester.keys }
      }
    })
    await sleep(500)
    await killed.kill9()
    const asking = await Promise.all(stuck)
    await client.close()
    edge = await startEdge(setup)
    client = fleetClient(edge)
    for (const { body, requester } of asking) {
      const answered = await client.post(body)
      expect(answered.status).toBe(200)
      const { certificate } = answered.json
      expect((await client.renew({ certificate, keys: requester.keys })).status).toBe(200)
    }
  })
})

test('the CA is replaced while runners go on', async () => {
  const ca = path('ca')
  const persistTo = path('rotated')
  const rotate = (step: string, ...more: string[]) =>
    runMuster(['ca', 'rotate', step, '--dir', ca, '--persist-to', persistTo, '--json', ...more])
  const rotation = async () => JSON.parse((await runMuster(['ca', 'show', '--dir', ca, '--json'])).stdout).rotation
  let vars: Record<string, string> = {}
  const applySecrets = () => {
    vars = { ...vars, ...JSON.parse(readFileSync(join(ca, 'secrets.json'), 'utf8')) }
  }
  const issuerOf = (certificate: string) => new X509Certificate(certificate).issuer
  const roots = (bundle: string) => bundle.split('-----BEGIN').length - 1

  expect((await runMuster(['ca', 'init', '--dir', ca])).code).toBe(0)
  vars = {
    CA_KEY: readFileSync(join(ca, 'issuing.key.pem'), 'utf8'),
    CA_CERT: readFileSync(join(ca, 'issuing.pem'), 'utf8'),
  }
  expect((await rotate('activate')).code).toBe(1)
  expect(JSON.parse((await rotate('prepare')).stdout)).toMatchObject({ rotation: 'prepared' })
  expect(JSON.parse((await rotate('prepare')).stdout)).toMatchObject({ rotation: 'prepared', again: true })
  applySecrets()

  const [first, straggler] = await withEdge({ persistTo, vars }, async (client, edge) => {
    const { token } = await client.mint('--runner-id', 'build-7')
    const enrolled = await client.enroll(token)
    expect(roots(enrolled.trustBundle)).toBe(2)
    expect((await rotate('activate', '--url', edge.url)).code).toBe(0)
    return [enrolled, await client.enroll(token)]
  })
  expect(await rotation()).toBe('activated')
  applySecrets()

  const renewed = await withEdge({ persistTo, vars }, async (client) => {
    const { json, ...identity } = await client.renew(first)
    expect(issuerOf(identity.certificate)).not.toBe(issuerOf(first.certificate))
    expect(roots(json.trustBundle)).toBe(2)
    ;(await client.connect(straggler)).socket.close()
    const refused = await rotate('retire')
    expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining('1 live runner holds a certificate')])
    return identity
  })
  expect(JSON.parse((await rotate('retire', '--force')).stdout)).toMatchObject({ rotation: 'none' })
  applySecrets()

  await withEdge({ persistTo, vars }, async (client) => {
    expect((await client.renew(straggler)).json.code).toBe('attestation_invalid')
    const { status, json } = await client.renew(renewed)
    expect([status, roots(json.trustBundle)]).toEqual([200, 1])
  })
})
