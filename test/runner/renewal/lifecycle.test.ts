// Tests the lifecycle of one runner against a fake control plane with scripted answers and a fake clock.

import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { requestFailed } from '../../../src/runner/net/http.ts'
import { FakeControlPlane, problem } from '../../fakes/control-plane.ts'
import { Harness, HOUR, kubernetesToken, MINUTE, SECOND, scratchDir } from '../harness.ts'

const LOST = 'identity expired beyond the renewal grace window — runner needs re-enrollment'

let plane: FakeControlPlane
let running: Harness[] = []

beforeAll(async () => {
  plane = await FakeControlPlane.start()
})
afterAll(() => plane.stop())
beforeEach(() => {
  plane.requests.length = 0
  plane.next.length = 0
  plane.respond = () => undefined
  Object.assign(plane.issuing, { lifetime: 900, tenant: 'acme', trustDomain: 'rootpilot', runnerId: null })
  plane.issuing.spoil = (answer) => answer
})
afterEach(async () => {
  await Promise.all(running.map((one) => one.stop()))
  running = []
})

function start(env: NodeJS.ProcessEnv = {}, flags = {}, certificates?: string): Harness {
  const other = env.RUNNER_TOKEN !== undefined || env.RUNNER_TOKEN_FILE !== undefined
  const token = other ? {} : { RUNNER_BOOTSTRAP_TOKEN: 'muster_bt_secret' }
  const harness = new Harness(plane, { ...token, ...env }, flags, certificates)
  running.push(harness)
  return harness
}

async function ready(env: NodeJS.ProcessEnv = {}, flags = {}, certificates?: string): Promise<Harness> {
  const harness = start(env, flags, certificates)
  await harness.settle()
  expect(harness.states).toContain('ready')
  return harness
}

const modes = () => plane.enrolls.map(({ body }) => body.attestation.mode)
const keysSent = () => plane.enrolls.map(({ body }) => body.csr)
const unavailable = () => ({ status: 503, body: '' })

describe('boot', () => {
  test('goes through its states in order, each one JSON line', async () => {
    const harness = await ready()
    expect(harness.states).toEqual(['liveness', 'config', 'secrets', 'enroll', 'connect', 'ready'])
    expect(harness.agent.unready).toBeNull()
    expect(harness.announced).toEqual(['enrolled', 'ready'])
  })

  test('every line carries the instance id, and none the token, the CSR or a key', async () => {
    const harness = await ready({ RUNNER_INSTANCE_ID: 'build-7' })
    await harness.pass(30 * MINUTE)
    expect(harness.lines.every(({ instanceId }) => instanceId === 'build-7')).toBe(true)
    expect(harness.text.join('')).not.toMatch(/muster_bt_secret|BEGIN|PRIVATE/)
  })

  test('a stop before anything is sent leaves the token unspent', async () => {
    const harness = start()
    expect((await harness.stop()).exitCode).toBe(0)
    expect(plane.requests).toEqual([])
  })
})

describe('retries', () => {
  test('one key and one CSR serve all retries of a request, and the next request has a new one', async () => {
    plane.next.push(unavailable, unavailable)
    const harness = await readyAfter(start(), 10 * SECOND)
    expect(new Set(keysSent()).size).toBe(1)
    expect(plane.enrolls).toHaveLength(3)
    await harness.pass(10 * MINUTE)
    expect(modes().slice(3)).toEqual(['mtls-renewal'])
    expect(new Set(keysSent()).size).toBe(2)
  })

  test('the first comes after 1 s, then they double up to five minutes, ±25 %', async () => {
    plane.respond = unavailable
    const harness = start()
    const times: number[] = []
    harness.random = 0.5
    for (let i = 0; i < 13; i++) {
      await harness.settle()
      times.push(Number(harness.lines.at(-1)?.retryInSeconds))
      await harness.pass(Number(harness.lines.at(-1)?.retryInSeconds) * SECOND)
    }
    expect(times).toEqual([1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300, 300])
  })

  test.each([
    ['seconds', () => ({ status: 503, headers: { 'retry-after': '120' }, body: '' }), 120],
    [
      'an HTTP date',
      () => ({ status: 429, headers: { 'retry-after': new Date(Date.now() + 90_000).toUTCString() }, body: '' }),
      90,
    ],
    ['a refusal of ours', () => ({ ...problem(503, 'keys_unavailable'), headers: { 'retry-after': '10' } }), 10],
  ])('Retry-After in %s wins over the backoff', async (_name, answer, wait) => {
    plane.next.push(answer)
    const harness = start()
    await harness.pass((wait - 5) * SECOND)
    expect(plane.enrolls).toHaveLength(1)
    await harness.pass(10 * SECOND)
    expect(plane.enrolls).toHaveLength(2)
  })

  test('network, 429 and 5xx are retried for ever', async () => {
    plane.respond = unavailable
    const harness = start()
    await harness.pass(12 * HOUR)
    expect(harness.exit).toBeNull()
    plane.respond = () => undefined
    await harness.pass(10 * MINUTE)
    expect(harness.states).toContain('ready')
  })
})

async function readyAfter(harness: Harness, duration: number): Promise<Harness> {
  await harness.pass(duration)
  expect(harness.states).toContain('ready')
  return harness
}

describe('refusals', () => {
  test('of a single-use token are tried three times in all, then exit 77', async () => {
    plane.respond = () => problem(401, 'attestation_invalid')
    const harness = start()
    await harness.pass(MINUTE)
    expect(plane.enrolls).toHaveLength(3)
    expect(harness.exit?.exitCode).toBe(77)
    const refused = harness.lines.filter(({ message }) => message.startsWith('enrollment refused'))
    expect(refused[0]).toMatchObject({
      level: 'error',
      message: 'enrollment refused: the credential, not the network',
      code: 'attestation_invalid',
      detail: 'detail of attestation_invalid',
      requestId: '01a227f2-2f68-76aa-95ed-d0276828b324',
    })
  })

  test.each<[string, NodeJS.ProcessEnv]>([
    ['RUNNER_BOOTSTRAP_TOKEN', { RUNNER_BOOTSTRAP_TOKEN: 'muster_bt_secret' }],
    ['RUNNER_TOKEN', { RUNNER_BOOTSTRAP_TOKEN: '', RUNNER_TOKEN: 'muster_rt_secret' }],
  ])('of %s are tried three times in all, then exit 77', async (_name, env) => {
    plane.respond = () => problem(401, 'attestation_invalid')
    const harness = start(env)
    await harness.pass(MINUTE)
    expect(plane.enrolls).toHaveLength(3)
    expect(harness.exit?.exitCode).toBe(77)
  })

  test('of a Kubernetes token are tried for ever, ever further apart, each time with the token that is there', async () => {
    const path = join(scratchDir(), 'token')
    const claims = { iss: 'https://issuer.test', aud: ['rootpilot-enroll'], sub: 'system:serviceaccount:a:b', exp: 4e9 }
    writeFileSync(path, `${kubernetesToken(claims)}\n`)
    plane.respond = () => problem(401, 'attestation_invalid')
    const harness = start({ RUNNER_ATTESTATION_MODE: 'kubernetes', RUNNER_TOKEN_FILE: path })
    await harness.settle()
    const { iss, aud, sub, exp } = claims
    expect(harness.lines.at(-1)).toMatchObject({ ...{ iss, aud, sub, exp }, code: 'attestation_invalid' })
    expect(harness.agent.unready).toBe('no live certificate')
    writeFileSync(path, kubernetesToken({ ...claims, exp: 4e9 + 1 }))
    await harness.pass(24 * HOUR)
    expect(harness.exit).toBeNull()
    expect(plane.enrolls[1]?.body.attestation.token).toBe(kubernetesToken({ ...claims, exp: 4e9 + 1 }))
    const refused = harness.lines.filter(({ level }) => level === 'error')
    expect(refused).toHaveLength(plane.enrolls.length)
    for (const line of refused) {
      expect(line).toMatchObject({ message: 'enrollment refused: the credential, not the network', iss, sub, aud })
    }
    expect(refused.slice(0, 10).map(({ retryInSeconds }) => retryInSeconds)).toEqual([
      ...[1, 2, 4, 8, 16, 32, 64, 128, 256, 300],
    ])
    // The trust file was deployed.
    plane.respond = () => undefined
    await harness.pass(6 * MINUTE)
    expect(harness.agent.unready).toBeNull()
  })

  test('by a ban end it at once with 77, at enrollment and at renewal', async () => {
    plane.next.push(() => problem(403, 'banned'))
    const first = start()
    await first.settle()
    expect(first.exit?.exitCode).toBe(77)
    expect(plane.enrolls).toHaveLength(1)
    const second = await ready()
    plane.respond = () => problem(403, 'banned')
    await second.pass(10 * MINUTE)
    expect(second.exit?.exitCode).toBe(77)
  })

  test.each(['request_malformed', 'csr_invalid', 'nonce_mismatch'] as const)(
    '%s three times is exit 70',
    async (code) => {
      plane.respond = () => problem(400, code)
      const harness = start()
      await harness.pass(MINUTE)
      expect(plane.enrolls).toHaveLength(3)
      expect(harness.exit?.exitCode).toBe(70)
    },
  )
})

describe('renewal', () => {
  test('comes at two thirds of the life, less up to a tenth, by the old key’s signature of the new nonce', async () => {
    const harness = await ready()
    await harness.pass(9 * MINUTE)
    expect(modes()).toEqual(['bootstrap-token'])
    await harness.pass(MINUTE)
    expect(modes()).toEqual(['bootstrap-token', 'mtls-renewal'])
    expect(harness.announced).toEqual(['enrolled', 'ready', 'renewed'])
    expect(harness.agent.identity?.enrollmentId).toBe(plane.enrollmentId)
  })

  test('opens the new tunnel before it closes the old', async () => {
    const harness = await ready()
    await harness.pass(10 * MINUTE)
    expect(harness.sockets).toHaveLength(2)
    expect(harness.sockets.map(({ isClosed }) => isClosed)).toEqual([true, false])
    expect(harness.agent.unready).toBeNull()
    expect(harness.messages()).not.toContain('not ready: no open tunnel')
  })

  test('by platform evidence that is refused is tried for the rest of the window, then enrolls anew', async () => {
    const path = join(scratchDir(), 'token')
    writeFileSync(path, kubernetesToken({ exp: 4e9 }))
    const harness = await ready({ RUNNER_TOKEN_FILE: path })
    plane.respond = ({ body }) =>
      body.attestation.mode === 'mtls-renewal' ? problem(401, 'attestation_invalid') : undefined
    await harness.pass(20 * MINUTE)
    expect(modes().filter((mode) => mode === 'kubernetes')).toHaveLength(1)
    expect(modes().filter((mode) => mode === 'mtls-renewal').length).toBeGreaterThan(8)
    await harness.pass(2 * MINUTE)
    expect(harness.exit).toBeNull()
    expect(harness.announced).toEqual(['enrolled', 'ready', 'enrolled'])
    expect(modes().filter((mode) => mode === 'kubernetes')).toHaveLength(2)
  })

  test('that is refused and good again in time changes nothing', async () => {
    const path = join(scratchDir(), 'token')
    writeFileSync(path, kubernetesToken({ exp: 4e9 }))
    const harness = await ready({ RUNNER_TOKEN_FILE: path })
    plane.respond = () => problem(401, 'attestation_invalid')
    await harness.pass(12 * MINUTE)
    plane.respond = () => undefined
    await harness.pass(5 * MINUTE)
    expect(harness.announced).toEqual(['enrolled', 'ready', 'renewed'])
  })

  test('refused three times ends a bootstrapped runner with 75, and re-enrolls one whose evidence serves again', async () => {
    const bootstrapped = await ready()
    plane.respond = ({ body }) =>
      body.attestation.mode === 'mtls-renewal' ? problem(401, 'attestation_invalid') : undefined
    await bootstrapped.pass(11 * MINUTE)
    expect(bootstrapped.exit?.exitCode).toBe(75)
    expect(modes().filter((mode) => mode === 'mtls-renewal')).toHaveLength(3)
    plane.requests.length = 0
    const minted = await ready({ RUNNER_TOKEN: 'muster_rt_secret' })
    await minted.pass(11 * MINUTE)
    expect(minted.exit).toBeNull()
    expect(modes()).toEqual(['runner-token', 'mtls-renewal', 'mtls-renewal', 'mtls-renewal', 'runner-token'])
    expect(minted.announced).toEqual(['enrolled', 'ready', 'enrolled'])
  })

  test('answered with reattestation_required enrolls anew at once, without a gap', async () => {
    const harness = await ready({ RUNNER_TOKEN: 'muster_rt_secret' })
    plane.next.push(() => problem(401, 'reattestation_required'))
    await harness.pass(10 * MINUTE)
    expect(modes()).toEqual(['runner-token', 'mtls-renewal', 'runner-token'])
    expect(new Set(keysSent()).size).toBe(3)
    expect(harness.lines.find(({ code }) => code === 'reattestation_required')?.level).toBe('warn')
    expect(harness.messages('error')).toEqual([])
    expect(harness.agent.unready).toBeNull()
    expect(harness.messages()).not.toContain('not ready: no open tunnel')
  })

  test('past the window is over: the message, exit 75', async () => {
    const harness = await ready()
    plane.respond = unavailable
    await harness.pass(22 * MINUTE)
    expect(harness.exit).toEqual({ exitCode: 75, messages: [LOST] })
    expect(harness.messages('error').at(-1)).toBe(LOST)
  })

  test('refused as past the window is over at once', async () => {
    const harness = await ready()
    plane.respond = () => problem(401, 'renewal_window_passed')
    await harness.pass(10 * MINUTE)
    expect(harness.exit).toEqual({ exitCode: 75, messages: [LOST] })
  })

  test('switched off warns once at boot and ends with the certificate, exit 75', async () => {
    const harness = await ready({ RUNNER_CERT_RENEWAL: 'off' })
    expect(harness.messages('warn')).toHaveLength(1)
    await harness.pass(14 * MINUTE)
    expect(harness.exit).toBeNull()
    await harness.pass(MINUTE + SECOND)
    expect(harness.exit?.exitCode).toBe(75)
    expect(modes()).toEqual(['bootstrap-token'])
  })

  test('may change the trust domain, and nothing else of who the runner is', async () => {
    const harness = await ready()
    plane.issuing.trustDomain = 'whystack'
    await harness.pass(10 * MINUTE)
    expect(harness.agent.identity?.spiffeId).toBe('spiffe://whystack/tenant/acme/runner')
    plane.issuing.tenant = 'umbrella'
    await harness.pass(10 * MINUTE)
    expect(harness.agent.identity?.tenant).toBe('acme')
    expect(harness.messages('warn').at(-1)).toBe('renewal got no answer yet')
    expect(harness.lines.at(-1)?.why).toBe('the answer was not kept: the renewal changed tenant')
  })
})

describe('the tunnel', () => {
  test.each([1006, 1011, 1012, 4000])(
    'closed with %i is not ready at once, and opened again after the backoff',
    async (code) => {
      const harness = await ready()
      harness.sockets[0]?.end(code)
      await harness.settle()
      expect(harness.agent.unready).toBe('no open tunnel')
      await harness.pass(900)
      expect(harness.sockets).toHaveLength(1)
      await harness.pass(SECOND)
      expect(harness.agent.unready).toBeNull()
      expect(harness.announced).toEqual(['enrolled', 'ready', 'ready'])
    },
  )

  test('backs off further until a connection has lasted', async () => {
    const harness = await ready()
    const waits: unknown[] = []
    for (let i = 0; i < 4; i++) {
      harness.sockets.at(-1)?.end(1012)
      await harness.settle()
      waits.push(harness.lines.findLast(({ message }) => message === 'tunnel closed')?.retryInSeconds)
      await harness.pass(10 * SECOND)
    }
    expect(waits).toEqual([1, 2, 4, 8])
    await harness.pass(61 * SECOND)
    harness.sockets.at(-1)?.end(1012)
    await harness.settle()
    expect(harness.lines.findLast(({ message }) => message === 'tunnel closed')?.retryInSeconds).toBe(1)
  })

  test('closed with 4001 renews, then connects with the new certificate', async () => {
    const harness = await ready()
    harness.sockets[0]?.end(4001)
    await harness.pass(2 * SECOND)
    expect(modes()).toEqual(['bootstrap-token', 'mtls-renewal'])
    expect(harness.sockets[1]?.identity).toBe(harness.agent.identity)
  })

  test('closed with 4002 waits five minutes and says that another connection uses the identity', async () => {
    const harness = await ready()
    harness.sockets[0]?.end(4002)
    await harness.pass(4 * MINUTE)
    expect(harness.messages('warn')).toContain('another connection uses this identity')
    expect(harness.sockets).toHaveLength(1)
    await harness.pass(MINUTE + SECOND)
    expect(harness.sockets).toHaveLength(2)
  })

  test('closed with 4003 renews once, and a ban in the answer ends it with 77', async () => {
    const harness = await ready()
    plane.respond = () => problem(403, 'banned')
    harness.sockets[0]?.end(4003)
    await harness.settle()
    expect(modes()).toEqual(['bootstrap-token', 'mtls-renewal'])
    expect(harness.exit?.exitCode).toBe(77)
  })

  test('closed by the control plane before the new one is ready is neither a gap nor a conflict', async () => {
    const harness = await ready()
    const [former] = harness.sockets
    harness.dialing = () => former?.end(4002)
    await harness.pass(10 * MINUTE)
    expect(harness.sockets).toHaveLength(2)
    expect(harness.agent.unready).toBeNull()
    expect(harness.messages('warn')).toEqual([])
  })

  test('closed while the new one is slow: not ready after a second, until the new one is open', async () => {
    const harness = await ready()
    const [former] = harness.sockets
    const answered = Promise.withResolvers<void>()
    harness.dialing = () => {
      former?.end(4002)
      return answered.promise
    }
    const dialed = harness.dialed
    while (harness.dialed === dialed) await harness.pass(SECOND)
    expect(harness.agent.unready).toBeNull()
    await harness.pass(2 * SECOND)
    expect(harness.agent.unready).toBe('no open tunnel')
    answered.resolve()
    await harness.pass(SECOND)
    expect(harness.agent.unready).toBeNull()
    expect(harness.messages('warn')).toEqual(['not ready: no open tunnel'])
    expect(harness.announced).toEqual(['enrolled', 'ready', 'renewed', 'ready'])
  })

  test('closed, and the new one fails: not ready', async () => {
    const harness = await ready()
    const [former] = harness.sockets
    harness.dialing = () => former?.end(4002)
    harness.dials.push(requestFailed('reset'))
    await harness.pass(8 * MINUTE + 30 * SECOND)
    const dialed = harness.dialed
    while (harness.dialed === dialed) await harness.pass(SECOND)
    expect(harness.messages('warn')).toEqual(['not ready: no open tunnel', 'tunnel could not be opened'])
    await harness.pass(2 * SECOND)
    expect(harness.agent.unready).toBeNull()
  })

  test('refused at the upgrade renews to learn why', async () => {
    const harness = start()
    const banned = { code: 'banned', detail: undefined, requestId: undefined }
    harness.dials.push(requestFailed('HTTP 403', { status: 403, problem: banned }))
    plane.next.push(
      () => undefined,
      () => problem(403, 'banned'),
    )
    await harness.settle()
    expect(harness.exit?.exitCode).toBe(77)
  })

  test('drained by an operator ends the runner with 0', async () => {
    const harness = await ready()
    harness.sockets[0]?.onDrain()
    expect((await harness.done).exitCode).toBe(0)
    expect(harness.sockets[0]?.isClosed).toBe(true)
  })
})

describe('clocks', () => {
  test('suspend-short: nothing at wake-up, then renewal at two thirds of wall time', async () => {
    plane.issuing.lifetime = 3600
    const harness = await ready()
    await harness.pass(600 * SECOND)
    harness.suspend(1200 * SECOND)
    await harness.pass(60 * SECOND)
    expect(modes()).toHaveLength(1)
    await harness.pass(600 * SECOND)
    expect(modes()).toHaveLength(2)
  })

  test.each([
    ['suspend-past-due', 2700],
    ['suspend-into-grace', 3200],
  ])('%s: renews within one look at the clock', async (_id, asleep) => {
    plane.issuing.lifetime = 3600
    const harness = await ready()
    await harness.pass(600 * SECOND)
    harness.suspend(asleep * SECOND)
    expect(harness.agent.unready === null).toBe(asleep === 2700)
    await harness.pass(30 * SECOND)
    expect(modes()).toEqual(['bootstrap-token', 'mtls-renewal'])
    expect(harness.agent.unready).toBeNull()
  })

  test('suspend-past-grace: lost at wake-up, whether or not the control plane answers', async () => {
    const harness = await ready()
    plane.respond = unavailable
    harness.suspend(86_400 * SECOND)
    expect(harness.agent.unready).toBe('no live certificate')
    await harness.pass(30 * SECOND)
    expect(harness.exit).toEqual({ exitCode: 75, messages: [LOST] })
    expect(modes()).toEqual(['bootstrap-token'])
  })

  test('suspend-in-outage: lost at wake-up, however long the next try was put off', async () => {
    const harness = await ready()
    plane.respond = () => ({ status: 503, headers: { 'retry-after': '3600' }, body: '' })
    await harness.pass(10 * MINUTE)
    expect(modes()).toEqual(['bootstrap-token', 'mtls-renewal'])
    harness.suspend(12 * MINUTE)
    await harness.pass(30 * SECOND)
    expect(harness.exit).toEqual({ exitCode: 75, messages: [LOST] })
  })

  test('clock-back-1h: no storm, the certificate is kept and renewed in its time', async () => {
    const harness = await ready()
    await harness.pass(5 * MINUTE)
    harness.clocks.wall -= HOUR
    await harness.pass(4 * MINUTE)
    expect(modes()).toHaveLength(1)
    expect(harness.agent.unready).toBeNull()
    await harness.pass(MINUTE)
    expect(modes()).toHaveLength(2)
  })

  test.each([HOUR, 24 * HOUR, 315_360_000 * SECOND])(
    'clock-forward by %i ms: the control plane is asked, and a wrong clock ends neither the identity nor readiness',
    async (jump) => {
      const harness = await ready()
      plane.respond = unavailable
      harness.clocks.wall += jump
      await harness.pass(3 * MINUTE)
      expect(modes()).toContain('mtls-renewal')
      expect(harness.agent.unready).toBeNull()
      harness.clocks.wall -= jump
      plane.respond = () => undefined
      await harness.pass(5 * MINUTE)
      expect(harness.agent.unready).toBeNull()
      expect(harness.exit).toBeNull()
    },
  )

  test('a wrong clock ends no runner whose renewal is switched off', async () => {
    const harness = await ready({ RUNNER_CERT_RENEWAL: 'off' })
    harness.clocks.wall += 24 * HOUR
    await harness.pass(10 * MINUTE)
    expect(harness.exit).toBeNull()
    expect(harness.agent.unready).toBeNull()
  })

  test('a virtual machine that its host paused renews when its wall clock is set right', async () => {
    const harness = await ready()
    harness.clocks.wall += 14 * MINUTE
    await harness.pass(31 * SECOND)
    expect(modes()).toEqual(['bootstrap-token', 'mtls-renewal'])
  })

  test('timer-overflow: a certificate of most of a year is renewed after months, with no timer above 30 s', async () => {
    plane.issuing.lifetime = 300 * 24 * 3600
    const harness = await ready()
    await harness.pass(10 * MINUTE)
    expect(modes()).toHaveLength(1)
    harness.suspend(205 * 24 * HOUR)
    await harness.pass(30 * SECOND)
    expect(modes()).toHaveLength(2)
    expect(harness.clocks.longest).toBeLessThanOrEqual(30 * SECOND)
  })

  test('life-shorter-than-interval: a certificate of a minute is renewed at about 40 s', async () => {
    plane.issuing.lifetime = 60
    const harness = await ready()
    await harness.pass(30 * SECOND)
    expect(modes()).toHaveLength(1)
    await harness.pass(11 * SECOND)
    expect(modes()).toHaveLength(2)
  })

  test('fleet-start: first renewals are spread over a tenth of the life', async () => {
    const due: number[] = []
    for (const random of [0, 0.25, 0.5, 0.75, 0.999]) {
      const harness = start()
      harness.random = random
      await harness.settle()
      const before = plane.enrolls.length
      while (plane.enrolls.length === before) await harness.pass(SECOND)
      due.push(harness.clocks.monotonic / SECOND)
      await harness.stop()
    }
    expect(Math.max(...due)).toBeLessThanOrEqual(601)
    expect(Math.max(...due) - Math.min(...due)).toBeGreaterThanOrEqual(89)
  })

  test('the life of a persisted certificate is counted by the control plane’s clock once that is known', async () => {
    const folder = scratchDir()
    await (await ready({ RUNNER_IDENTITY_DIR: folder })).stop()
    const issued = Date.now()
    const serverTime = (at: number) => `${new Date(at).toISOString().slice(0, 19)}Z`
    const harness = new Harness(plane, { RUNNER_BOOTSTRAP_TOKEN: 't', RUNNER_IDENTITY_DIR: folder })
    running.push(harness)
    // Ten minutes ahead; the certificate has all but a minute of its fifteen, and its window of six.
    harness.clocks.wall += 10 * MINUTE
    plane.respond = () =>
      problem(503, 'upstream_unavailable', { serverTime: serverTime(issued + harness.clocks.monotonic) })
    await harness.pass(14 * MINUTE)
    expect(harness.agent.identity).not.toBeNull()
    await harness.pass(6 * MINUTE)
    expect(harness.exit).toBeNull()
    expect(harness.agent.identity).toBeNull()
    await harness.pass(2 * MINUTE)
    expect(harness.exit).toEqual({ exitCode: 75, messages: [LOST] })
  })

  test('a time that somebody else than the control plane tells changes no life', async () => {
    const harness = await ready()
    plane.respond = () => ({ status: 502, headers: { date: 'Fri, 01 Jan 2038 00:00:00 GMT' }, body: '' })
    await harness.pass(14 * MINUTE)
    expect(harness.agent.identity).not.toBeNull()
  })

  test('skew past 30 s is logged once, and changes nothing', async () => {
    const harness = start()
    plane.issuing.clock = () => harness.clocks.wall + 2 * HOUR
    await harness.pass(12 * MINUTE)
    expect(modes()).toEqual(['bootstrap-token', 'mtls-renewal'])
    const warnings = harness.lines.filter(({ skewSeconds }) => skewSeconds !== undefined)
    expect(warnings).toHaveLength(1)
    expect(warnings[0]).toMatchObject({ level: 'warn', skewSeconds: 7200 })
    expect(harness.agent.unready).toBeNull()
  })
})

describe('RUNNER_TENANT and --runner-id', () => {
  test('another tenant than the enrolled one refuses to start, exit 78, with the identity kept', async () => {
    const folder = scratchDir()
    const secrets = scratchDir()
    mkdirSync(join(secrets, 'umbrella'))
    writeFileSync(join(secrets, 'umbrella', 'key'), 'hush')
    const env = { RUNNER_TENANT: 'umbrella', RUNNER_IDENTITY_DIR: folder, RUNNER_SECRETS_DIR: secrets }
    const harness = start(env)
    await harness.settle()
    const message = 'RUNNER_TENANT=umbrella but this runner enrolled as acme: refusing to start'
    expect(harness.exit).toEqual({ exitCode: 78, messages: [message] })
    expect(harness.lines.map(({ state }) => state)).not.toContain('connect')
    expect(harness.agent.secrets.size).toBe(0)
    expect(existsSync(join(folder, 'identity.json'))).toBe(true)

    const again = start(env)
    await again.settle()
    expect(again.exit).toEqual({ exitCode: 78, messages: [message] })
    expect(again.lines.map(({ state }) => state)).not.toContain('secrets')

    await ready({ RUNNER_TENANT: 'acme', RUNNER_IDENTITY_DIR: folder })
    expect(modes()).toEqual(['bootstrap-token', 'mtls-renewal'])
  })

  test('secrets of the tenant are handed out once it is proven', async () => {
    const secrets = scratchDir()
    mkdirSync(join(secrets, 'acme'))
    writeFileSync(join(secrets, 'acme', 'db-password'), 'hush')
    const harness = await ready({ RUNNER_TENANT: 'acme', RUNNER_SECRETS_DIR: secrets })
    expect(Buffer.from(harness.agent.secrets.get('db-password') ?? []).toString()).toBe('hush')
    expect(harness.text.join('')).not.toContain('hush')
  })

  test('another runner ID in the answer refuses to start, exit 78', async () => {
    plane.issuing.runnerId = 'prod/node-1'
    const harness = start({}, { runnerId: 'prod/node-2' })
    await harness.settle()
    expect(harness.exit?.exitCode).toBe(78)
    const same = await ready({}, { runnerId: 'prod/node-1' })
    expect(same.agent.identity?.runnerId).toBe('prod/node-1')
    expect(plane.enrolls.every(({ text }) => !text.includes('node-2'))).toBe(true)
  })
})

describe('RUNNER_IDENTITY_DIR', () => {
  const mode = (path: string) => (statSync(path).mode & 0o777).toString(8)

  test('keeps the identity for the next boot, which renews and spends no token', async () => {
    const folder = scratchDir()
    const first = await ready({ RUNNER_IDENTITY_DIR: folder })
    await first.stop()
    expect(readdirSync(folder).sort()).toEqual(['identity.json', 'instance-id'])
    expect([mode(join(folder, 'identity.json')), mode(join(folder, 'instance-id'))]).toEqual(['600', '600'])
    const second = await ready({ RUNNER_IDENTITY_DIR: folder, RUNNER_BOOTSTRAP_TOKEN: '' })
    expect(modes()).toEqual(['bootstrap-token', 'mtls-renewal'])
    expect(second.announced).toEqual(['renewed', 'ready'])
  })

  test('writes mode 600 over a file of another mode', async () => {
    const folder = scratchDir()
    writeFileSync(join(folder, 'identity.json'), '{}', { mode: 0o666 })
    chmodSync(join(folder, 'identity.json'), 0o666)
    await ready({ RUNNER_IDENTITY_DIR: folder })
    expect(mode(join(folder, 'identity.json'))).toBe('600')
  })

  test('keeps the key of an enrollment under way, so that a crash does not strand a spent token', async () => {
    const folder = scratchDir()
    plane.respond = unavailable
    const first = start({ RUNNER_IDENTITY_DIR: folder })
    await first.settle()
    expect(mode(join(folder, 'enrollment.json'))).toBe('600')
    await first.stop()
    plane.respond = () => undefined
    await ready({ RUNNER_IDENTITY_DIR: folder })
    expect(new Set(keysSent()).size).toBe(1)
    expect(existsSync(join(folder, 'enrollment.json'))).toBe(false)
  })

  test('whose identity is refused at boot is set aside, and the boot enrolls', async () => {
    const folder = scratchDir()
    await (await ready({ RUNNER_IDENTITY_DIR: folder })).stop()
    plane.requests.length = 0
    plane.next.push(() => problem(401, 'attestation_invalid'))
    await ready({ RUNNER_IDENTITY_DIR: folder })
    expect(modes()).toEqual(['mtls-renewal', 'bootstrap-token'])
    expect(existsSync(join(folder, 'identity.json.set-aside'))).toBe(true)
  })

  test('whose identity is refused at boot, with no evidence to enroll by, says what is missing', async () => {
    const folder = scratchDir()
    await (await ready({ RUNNER_IDENTITY_DIR: folder })).stop()
    plane.next.push(() => problem(401, 'attestation_invalid'))
    const harness = start({ RUNNER_IDENTITY_DIR: folder, RUNNER_BOOTSTRAP_TOKEN: '' })
    await harness.settle()
    expect(harness.exit).toEqual({
      exitCode: 78,
      messages: ['RUNNER_ATTESTATION_MODE=bootstrap-token requires RUNNER_BOOTSTRAP_TOKEN'],
    })
  })

  test('whose identity is past the window enrolls, without asking for a renewal', async () => {
    const folder = scratchDir()
    await (await ready({ RUNNER_IDENTITY_DIR: folder })).stop()
    plane.requests.length = 0
    const harness = new Harness(plane, { RUNNER_BOOTSTRAP_TOKEN: 'muster_bt_again', RUNNER_IDENTITY_DIR: folder })
    harness.clocks.wall += 22 * MINUTE
    running.push(harness)
    await harness.settle()
    expect(modes()).toEqual(['bootstrap-token'])
  })

  test('serves while the control plane is away, if the certificate lives', async () => {
    const folder = scratchDir()
    await (await ready({ RUNNER_IDENTITY_DIR: folder })).stop()
    plane.respond = unavailable
    const harness = await ready({ RUNNER_IDENTITY_DIR: folder })
    expect(harness.announced).toEqual(['kept', 'ready'])
    plane.respond = () => undefined
    await harness.pass(2 * SECOND)
    expect(harness.announced).toEqual(['kept', 'ready', 'renewed'])
  })

  test('that cannot be written to warns before a token is spent, and goes on', async () => {
    const blocked = join(scratchDir(), 'file')
    writeFileSync(blocked, '')
    const harness = await ready({ RUNNER_IDENTITY_DIR: join(blocked, 'identity') })
    expect(harness.messages('warn')).toEqual(['could not persist identity — next boot will re-enroll from scratch'])
    const warned = harness.lines.findIndex(({ level }) => level === 'warn')
    expect(warned).toBeLessThan(harness.lines.findIndex(({ state }) => state === 'enroll'))
  })

  test('that cannot be written to is read all the same: its identity is used, and the warning comes once', async () => {
    const folder = scratchDir()
    await (await ready({ RUNNER_IDENTITY_DIR: folder })).stop()
    const owner = statSync(join(folder, 'instance-id')).mtimeMs
    const obstacle = join(folder, `identity.json.tmp-${process.pid}`)
    mkdirSync(join(obstacle, 'in-the-way'), { recursive: true })
    plane.requests.length = 0
    const harness = await ready({ RUNNER_IDENTITY_DIR: folder, RUNNER_BOOTSTRAP_TOKEN: '' })
    expect(modes()).toEqual(['mtls-renewal'])
    expect(harness.messages('warn')).toEqual(['could not persist identity — next boot will re-enroll from scratch'])
    const warned = harness.lines.findIndex(({ level }) => level === 'warn')
    expect(warned).toBeLessThan(harness.lines.findIndex(({ state }) => state === 'enroll'))
    expect(statSync(join(folder, 'instance-id')).mtimeMs).toBe(owner)
  })

  describe('that cannot take the renewed identity', () => {
    const PERSISTED_NOT = 'could not persist identity — next boot will re-enroll from scratch'
    const KEPT = 'could not persist the renewed identity — going on with the one on disk, and trying again'
    const obstacleIn = (folder: string) => join(folder, `identity.json.tmp-${process.pid}`)
    /** The temporary file has nowhere to go. */
    const obstruct = (folder: string) => mkdirSync(join(obstacleIn(folder), 'in-the-way'), { recursive: true })
    const clear = (folder: string) => rmSync(obstacleIn(folder), { recursive: true })
    const onDisk = (folder: string) => JSON.parse(readFileSync(join(folder, 'identity.json'), 'utf8')).certificate

    test('goes on with the one on disk, which may still renew after a restart', async () => {
      const folder = scratchDir()
      const harness = await ready({ RUNNER_IDENTITY_DIR: folder })
      const former = harness.agent.identity?.certificate
      obstruct(folder)
      await harness.pass(10 * MINUTE)
      expect(modes()).toEqual(['bootstrap-token', 'mtls-renewal'])
      expect(harness.agent.identity?.certificate).toBe(former)
      expect(onDisk(folder)).toBe(former)
      expect(harness.sockets).toHaveLength(1)
      expect(harness.agent.unready).toBeNull()
      expect(harness.messages('warn')).toEqual([KEPT])
      expect(String(harness.lines.find(({ message }) => message === KEPT)?.cause)).toContain(folder)
      await harness.stop()
      clear(folder)
      plane.requests.length = 0
      const next = await ready({ RUNNER_IDENTITY_DIR: folder, RUNNER_BOOTSTRAP_TOKEN: '' })
      expect(plane.enrolls[0]?.body.attestation.certificate).toBe(former)
      expect(next.announced).toEqual(['renewed', 'ready'])
    })

    test('uses the new one as soon as it can be written, with no further renewal', async () => {
      const folder = scratchDir()
      const harness = await ready({ RUNNER_IDENTITY_DIR: folder })
      const former = harness.agent.identity?.certificate
      obstruct(folder)
      await harness.pass(10 * MINUTE)
      clear(folder)
      await harness.pass(31 * SECOND)
      expect(modes()).toEqual(['bootstrap-token', 'mtls-renewal'])
      expect(harness.agent.identity?.certificate).not.toBe(former)
      expect(onDisk(folder)).toBe(harness.agent.identity?.certificate)
      expect(harness.messages('info')).toContain('the identity is persisted now')
    })

    test('uses the new one in the last minute of the old, which is removed, and writes it when that can be done', async () => {
      const folder = scratchDir()
      const harness = await ready({ RUNNER_IDENTITY_DIR: folder })
      obstruct(folder)
      await harness.pass(13 * MINUTE + 50 * SECOND)
      expect(existsSync(join(folder, 'identity.json'))).toBe(true)
      await harness.pass(50 * SECOND)
      expect(harness.announced).toEqual(['enrolled', 'ready', 'renewed'])
      expect(existsSync(join(folder, 'identity.json'))).toBe(false)
      expect(harness.messages('warn')).toEqual([KEPT, PERSISTED_NOT])
      expect(harness.agent.unready).toBeNull()
      clear(folder)
      await harness.pass(31 * SECOND)
      expect(onDisk(folder)).toBe(harness.agent.identity?.certificate)
      await harness.pass(HOUR)
      expect(harness.messages('warn')).toHaveLength(2)
      expect(harness.agent.unready).toBeNull()
    })

    test('uses the new one at once where the control plane no longer takes the old', async () => {
      const folder = scratchDir()
      const harness = await ready({ RUNNER_IDENTITY_DIR: folder })
      obstruct(folder)
      await harness.pass(10 * MINUTE)
      harness.sockets[0]?.end(4003)
      await harness.pass(2 * SECOND)
      expect(modes()).toEqual(['bootstrap-token', 'mtls-renewal'])
      expect(harness.announced).toContain('renewed')
      expect(harness.agent.unready).toBeNull()
      expect(existsSync(join(folder, 'identity.json'))).toBe(false)
    })

    test('at a boot from disk serves with the one on disk', async () => {
      const folder = scratchDir()
      await (await ready({ RUNNER_IDENTITY_DIR: folder })).stop()
      const former = onDisk(folder)
      obstruct(folder)
      const harness = await ready({ RUNNER_IDENTITY_DIR: folder, RUNNER_BOOTSTRAP_TOKEN: '' })
      expect(harness.agent.identity?.certificate).toBe(former)
      expect(harness.announced).toEqual(['kept', 'ready'])
      expect(harness.messages('warn')).toEqual([PERSISTED_NOT])
    })

    test('keeps a first identity in memory and the key of its enrollment on disk, and writes it later', async () => {
      const folder = scratchDir()
      plane.next.push(unavailable)
      const harness = start({ RUNNER_IDENTITY_DIR: folder })
      await harness.settle()
      obstruct(folder)
      await readyAfter(harness, 2 * SECOND)
      expect(existsSync(join(folder, 'identity.json'))).toBe(false)
      expect(existsSync(join(folder, 'enrollment.json'))).toBe(true)
      clear(folder)
      await harness.pass(31 * SECOND)
      expect(readdirSync(folder).sort()).toEqual(['identity.json', 'instance-id'])
    })

    test('and whose old one cannot be removed either says so', async () => {
      const folder = scratchDir()
      const harness = await ready({ RUNNER_IDENTITY_DIR: folder })
      rmSync(join(folder, 'identity.json'))
      mkdirSync(join(folder, 'identity.json', 'in-the-way'), { recursive: true })
      await harness.pass(15 * MINUTE)
      const warned = harness.lines.filter(({ level }) => level === 'warn')
      expect(warned.map(({ message }) => message)).toEqual([KEPT, PERSISTED_NOT])
      expect(warned[1]?.cause).toMatch(/^the former identity stays: .*identity\.json/)
      expect(harness.agent.unready).toBeNull()
    })
  })

  test('that appears after the boot gets the identity', async () => {
    const blocked = join(scratchDir(), 'file')
    writeFileSync(blocked, '')
    const folder = join(blocked, 'identity')
    const harness = await ready({ RUNNER_IDENTITY_DIR: folder })
    rmSync(blocked)
    await harness.pass(31 * SECOND)
    expect(readdirSync(folder).sort()).toEqual(['identity.json', 'instance-id'])
    expect(mode(folder)).toBe('700')
  })

  test('of another runner is ignored', async () => {
    const [mine, other] = [scratchDir(), scratchDir()]
    await (await ready({ RUNNER_IDENTITY_DIR: other })).stop()
    await (await ready({ RUNNER_IDENTITY_DIR: mine })).stop()
    writeFileSync(join(mine, 'identity.json'), readFileSync(join(other, 'identity.json')))
    plane.requests.length = 0
    const harness = await ready({ RUNNER_IDENTITY_DIR: mine })
    expect(harness.messages('warn')).toEqual(['persisted identity was written for another identity dir — ignoring'])
    expect(modes()).toEqual(['bootstrap-token'])
  })
})
