// Tests that evidence which carries a time is made by the control plane's clock once an answer told it.

import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from 'vitest'
import { FakeControlPlane, problem } from '../../fakes/control-plane.ts'
import { Harness, kubernetesToken, MINUTE, SECOND, scratchDir } from '../harness.ts'

let plane: FakeControlPlane
const folder = scratchDir()
beforeAll(async () => {
  plane = await FakeControlPlane.start()
})
afterAll(() => plane.stop())
beforeEach(() => {
  plane.requests.length = 0
  for (const name of Object.keys(process.env)) if (name.startsWith('AWS_')) vi.stubEnv(name, undefined)
  vi.stubEnv('AWS_ACCESS_KEY_ID', 'ASIAEXAMPLE1')
  vi.stubEnv('AWS_SECRET_ACCESS_KEY', 'secret')
})
afterEach(() => {
  vi.unstubAllEnvs()
  plane.respond = () => undefined
})

const text = (at: number): string => `${new Date(at).toISOString().slice(0, 19)}Z`

/** When a request was signed, in milliseconds. */
function signedAt(index: number): number {
  const headers = plane.enrolls[index]?.body.attestation.headers as unknown as Record<string, string> | undefined
  const [, y, mo, d, h, mi, s] = /^(....)(..)(..)T(..)(..)(..)Z$/.exec(headers?.['x-amz-date'] ?? '') ?? []
  return Date.parse(`${y}-${mo}-${d}T${h}:${mi}:${s}Z`)
}

async function boot(): Promise<Harness> {
  const harness = new Harness(plane, { RUNNER_ATTESTATION_MODE: 'aws-sts', AWS_REGION: 'us-east-1' })
  // Gathering takes real time.
  vi.stubEnv('AWS_EC2_METADATA_DISABLED', 'true')
  return harness
}

/** Until the n-th request was answered. */
async function asked(harness: Harness, count: number): Promise<void> {
  while (plane.enrolls.length < count) await harness.pass(SECOND)
  await harness.settle()
}

test.each([-8 * MINUTE, 8 * MINUTE, -23 * 60 * MINUTE])(
  'a clock that is %i ms off signs with the control plane’s time from the first answer on, a refusal of ours',
  async (off) => {
    const harness = await boot()
    const server = () => harness.clocks.wall - off
    plane.issuing.clock = server
    plane.respond = () =>
      Math.abs(signedAt(plane.enrolls.length - 1) - server()) <= 5 * MINUTE
        ? undefined
        : problem(401, 'attestation_invalid', { serverTime: text(server()) })
    await asked(harness, 2)
    expect(harness.agent.unready).toBeNull()
    expect(Math.abs(signedAt(0) - server())).toBeGreaterThan(5 * MINUTE)
    expect(plane.enrolls).toHaveLength(2)
    const refused = harness.lines.find(({ code }) => code === 'attestation_invalid')
    expect(refused).toMatchObject({ level: 'error', region: 'us-east-1', credentials: 'environment' })
    await harness.stop()
  },
)

test.each<[string, object]>([
  ['rate_limited', { body: '{"code":"rate_limited","serverTime":"TIME"}', status: 429 }],
  ['a proxy’s page with a Date', { status: 502, body: '<html>' }],
])('%s tells the time, too', async (_name, answer) => {
  const harness = await boot()
  const server = () => harness.clocks.wall + 8 * MINUTE
  plane.issuing.clock = server
  plane.next.push(() => {
    const { status, body } = answer as { status: number; body: string }
    const headers = { date: new Date(server()).toUTCString() }
    return { status, headers, body: body.replace('TIME', text(server())) }
  })
  await asked(harness, 2)
  expect(Math.abs(signedAt(1) - server())).toBeLessThan(2 * SECOND)
  await harness.stop()
})

test.each(['0000', '+275760-09-13T00:00:00Z', '9999999999999999', '-000001-01-01T00:00:00Z', 'soon', 7, null, {}])(
  'a serverTime that is no time, %j, changes nothing',
  async (serverTime) => {
    const harness = await boot()
    plane.next.push(() => problem(401, 'attestation_invalid', { serverTime }))
    await asked(harness, 2)
    expect(harness.agent.unready).toBeNull()
    expect(Math.abs(signedAt(1) - harness.clocks.wall)).toBeLessThan(2 * SECOND)
    await harness.stop()
  },
)

test('a wall clock that is set meanwhile does not move the time that the control plane told', async () => {
  const harness = await boot()
  let told = harness.clocks.wall + 8 * MINUTE
  plane.next.push(() => problem(401, 'attestation_invalid', { serverTime: text(told) }))
  await asked(harness, 1)
  harness.clocks.wall += 8 * MINUTE
  await asked(harness, 2)
  told += harness.clocks.monotonic
  expect(Math.abs(signedAt(1) - told)).toBeLessThan(2 * SECOND)
  await harness.stop()
})

test('the last good token serves until it expires by the control plane’s clock', async () => {
  const path = join(folder, 'token')
  const harness = new Harness(plane, { RUNNER_TOKEN_FILE: path })
  const server = () => harness.clocks.wall - 20 * MINUTE
  // By this machine's clock it ended ten minutes ago.
  writeFileSync(path, kubernetesToken({ exp: Math.floor((server() + 10 * MINUTE) / 1000) }))
  plane.issuing.clock = server
  plane.next.push(() => problem(503, 'keys_unavailable', { serverTime: text(server()) }))
  await asked(harness, 1)
  rmSync(path)
  await asked(harness, 2)
  expect(harness.agent.unready).toBeNull()
  await harness.stop()
})
