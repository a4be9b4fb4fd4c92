// Tests how a runner reads the control plane's answers: accepted, refused or retried.

import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { EnrollAnswer } from '../../../src/protocol/enroll.ts'
import { epochMilliseconds } from '../../../src/protocol/time.ts'
import { parseRetryAfter } from '../../../src/runner/net/backoff.ts'
import { FakeControlPlane, problem } from '../../fakes/control-plane.ts'
import { Harness, SECOND } from '../harness.ts'

interface AnswerCase {
  readonly id: string
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
  readonly minWait?: number
  readonly clientClock?: number
}

const CASES: AnswerCase[] = JSON.parse(
  readFileSync(new URL('../../cases/agent/http-answers.json', import.meta.url), 'utf8'),
)

const JUNK = '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n'

let plane: FakeControlPlane
beforeAll(async () => {
  plane = await FakeControlPlane.start()
})
afterAll(() => plane.stop())
beforeEach(() => {
  plane.requests.length = 0
  plane.issuing.spoil = (answer) => answer
})

describe('an answer that is not the control plane’s is no verdict', () => {
  // The one case that names a field of its own is played below, with a real certificate.
  test.each(CASES.filter(({ id }) => id !== 'http-200-other-key'))('$id', async (given) => {
    plane.next.push(() => given)
    const harness = new Harness(plane, { RUNNER_BOOTSTRAP_TOKEN: 'muster_bt_secret' })
    if (given.clientClock !== undefined) harness.clocks.wall = given.clientClock * 1000
    await harness.settle()
    expect(harness.exit).toBeNull()
    expect(harness.lines.at(-1)).toMatchObject({ level: 'warn', message: 'enrollment got no answer yet' })
    if (given.minWait !== undefined) {
      await harness.pass((given.minWait - 1) * SECOND)
      expect(plane.enrolls).toHaveLength(1)
    }
    await harness.pass(2 * SECOND)
    expect(harness.states).toContain('ready')
    expect(plane.enrolls).toHaveLength(2)
    // The token may have been spent on the first key.
    expect(plane.enrolls[0]?.text).toBe(plane.enrolls[1]?.text)
    const skew = harness.lines.filter(({ skewSeconds }) => skewSeconds !== undefined)
    if (given.clientClock !== undefined) expect(skew[0]).toMatchObject({ level: 'warn', skewSeconds: 7200 })
    await harness.stop()
  })

  test('an unknown code is none either', async () => {
    plane.next.push(() => ({ status: 403, body: JSON.stringify({ code: 'evicted', status: 403 }) }))
    const harness = new Harness(plane, { RUNNER_BOOTSTRAP_TOKEN: 'muster_bt_t' })
    await harness.pass(2 * SECOND)
    expect(harness.states).toContain('ready')
    await harness.stop()
  })

  test('a refusal of another route, word or encoding does not end a runner', async () => {
    const refused = problem(403, 'banned')
    plane.next.push(
      () => ({ ...refused, headers: { 'content-encoding': 'gzip' } }),
      () => ({ ...refused, body: `${refused.body}x` }),
      () => ({ ...refused, status: 302 }),
      () => ({ ...refused, status: 200 }),
    )
    const harness = new Harness(plane, { RUNNER_BOOTSTRAP_TOKEN: 'muster_bt_t' })
    await harness.pass(30 * SECOND)
    expect(harness.states).toContain('ready')
    await harness.stop()
  })
})

describe('what comes back is checked before it is kept', () => {
  const other = async (change: (request: { csr: string; challengeNonce: string }) => object): Promise<EnrollAnswer> => {
    const [request] = plane.enrolls
    return plane.issue({ body: { ...request?.body, ...change(request?.body as never) } as never })
  }

  test.each<[string, (answer: EnrollAnswer) => object, string]>([
    ['tenant', (answer) => ({ ...answer, tenant: 'umbrella' }), 'tenant is not that of the certificate'],
    [
      'spiffeId',
      (answer) => ({ ...answer, spiffeId: 'spiffe://rootpilot/tenant/umbrella/runner' }),
      'spiffeId is not that of the certificate',
    ],
    [
      'enrollmentId',
      (answer) => ({ ...answer, enrollmentId: '01a227f2-2f68-76aa-95ed-d0276828b324' }),
      'enrollmentId is not that of the certificate',
    ],
    ['trustBundle', (answer) => ({ ...answer, trustBundle: '' }), 'the certificate does not lead to trustBundle'],
    ['chain', (answer) => ({ ...answer, chain: '' }), 'the certificate does not lead to trustBundle'],
    [
      'trustBundle of leaves',
      (answer) => ({ ...answer, trustBundle: answer.certificate }),
      'the certificate does not lead to trustBundle',
    ],
    ['serverTime', (answer) => ({ ...answer, serverTime: '2020-01-01T00:00:00Z' }), 'the certificate is not current'],
    ['serverTime in words', (answer) => ({ ...answer, serverTime: 'now' }), 'the certificate is not current'],
    [
      'version',
      (answer) => ({ ...answer, version: 2 }),
      'it has not the shape of version 1: version must be the number 1',
    ],
    [
      'a chain with junk',
      (answer) => ({ ...answer, chain: answer.chain + JUNK }),
      'a certificate of the chain cannot be read',
    ],
    [
      'a trust bundle that is cut',
      (answer) => ({ ...answer, trustBundle: answer.trustBundle + answer.trustBundle.slice(0, 200) }),
      'a certificate of the trust bundle cannot be read',
    ],
    [
      'two certificates',
      (answer) => ({ ...answer, certificate: answer.certificate + answer.chain }),
      'the certificate cannot be read',
    ],
    [
      'a missing field',
      ({ chain: _chain, ...answer }) => answer,
      'it has not the shape of version 1: chain is missing',
    ],
    ['certificate', (answer) => ({ ...answer, certificate: 'PEM' }), 'the certificate cannot be read'],
  ])('%s', async (_name, spoil, why) => {
    plane.issuing.spoil = spoil
    const harness = new Harness(plane, { RUNNER_BOOTSTRAP_TOKEN: 'muster_bt_t' })
    await harness.settle()
    expect(harness.lines.at(-1)?.why).toBe(`the answer was not kept: ${why}`)
    expect(harness.agent.identity).toBeNull()
    plane.issuing.spoil = (answer) => answer
    await harness.pass(2 * SECOND)
    expect(harness.states).toContain('ready')
    expect(plane.enrolls[0]?.text).toBe(plane.enrolls[1]?.text)
    await harness.stop()
  })

  test('http-200-other-key: a certificate for another key', async () => {
    const first = new Harness(plane, { RUNNER_BOOTSTRAP_TOKEN: 'muster_bt_t' })
    await first.settle()
    const answer = await other((body) => body)
    plane.requests.length = 0
    plane.next.push(() => ({ status: 200, body: JSON.stringify(answer) }))
    const second = new Harness(plane, { RUNNER_BOOTSTRAP_TOKEN: 'muster_bt_t' })
    await second.settle()
    expect(second.lines.at(-1)?.why).toBe('the answer was not kept: the key is not the key of the certificate')
    await second.pass(2 * SECOND)
    expect(second.states).toContain('ready')
    await Promise.all([first.stop(), second.stop()])
  })

  test('fields that a newer control plane adds are read past', async () => {
    plane.issuing.spoil = (answer) => ({ ...answer, hint: 'new' })
    const harness = new Harness(plane, { RUNNER_BOOTSTRAP_TOKEN: 'muster_bt_t' })
    await harness.settle()
    expect(harness.states).toContain('ready')
    await harness.stop()
  })
})

test('a text of the control plane that would spoil a log line is quoted', async () => {
  plane.next.push(() => problem(401, 'attestation_invalid', { detail: 'x\u001b[2J\u202e', requestId: 7 }))
  const harness = new Harness(plane, { RUNNER_BOOTSTRAP_TOKEN: 'muster_bt_t' })
  await harness.settle()
  const line = harness.lines.find(({ code }) => code !== undefined)
  expect(line?.detail).toBe('x\\u{1b}[2J\\u{202e}')
  expect(line).not.toHaveProperty('requestId')
  await harness.stop()
})

test.each<[string | undefined, number | null]>([
  ['30', 30_000],
  ['0', null],
  [' 7 ', 7000],
  ['Sun, 01 Mar 2026 12:00:30 GMT', 30_000],
  ['Sun, 01 Mar 2026 11:00:00 GMT', null],
  ['Sun, 01 Mar 2099 12:00:00 GMT', 3_600_000],
  ['99999999999', 3_600_000],
  ['soon', null],
  ['-5', null],
  ['2027-01-01', null],
  ['', null],
  [undefined, null],
])('Retry-After %j asks for %j ms', (header, wait) => {
  expect(parseRetryAfter(header, epochMilliseconds(Date.parse('2026-03-01T12:00:00Z')))).toBe(wait)
})
