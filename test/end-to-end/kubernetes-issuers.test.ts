// Tests Kubernetes tokens end to end: a local edge with its Durable Objects, KV and cron, and issuers over real HTTP.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { EnrollAnswer } from '../../src/protocol/enroll.ts'
import { type FakeIssuer, makeIssuer, makeIssuerKey } from '../fakes/issuer.ts'
import { type IssuerServer, serveIssuer } from '../fakes/issuer-server.ts'
import { enrollBody, makeRequester } from '../fakes/requester.ts'
import { type RunningEdge, startEdge } from './edge.ts'

/** One cluster for each subject: a cluster has one refetch in five minutes. */
const NAMES = ['eks', 'flooded', 'down', 'bloated', 'moved', 'original', 'copy', 'withdrawn'] as const
type Name = (typeof NAMES)[number]

const issuers = {} as Record<Name, FakeIssuer>
const servers: IssuerServer[] = []
let edge: RunningEdge

beforeAll(async () => {
  const outbound: Record<string, string> = {}
  for (const name of NAMES) {
    issuers[name] = await makeIssuer(`https://${name}.test/id/EXAMPLE`, await makeIssuerKey(`key-of-${name}`))
    const server = await serveIssuer(issuers[name], { gzip: name === 'eks' })
    servers.push(server)
    outbound[`${name}.test`] = server.url
  }
  issuers.down.manner = 503
  issuers.bloated.manner = 'bloat'
  issuers.moved.manner = 'redirect'
  const clusters = NAMES.map((name) =>
    [
      `  - name: ${name}`,
      `    issuer: ${issuers[name].issuer}`,
      '    namespace: compass-runner',
      '    serviceAccount: compass-runner',
    ].join('\n'),
  )
  edge = await startEdge({ trust: `clusters:\n${clusters.join('\n')}\n`, outbound })
})
afterAll(async () => {
  await edge.stop()
  for (const server of servers) await server.close()
})

const seconds = () => Math.floor(Date.now() / 1000)

const tokenOf = (name: Name, claims = {}, header = {}) =>
  issuers[name].token(seconds(), {
    claims: { aud: ['compass-runner'], sub: 'system:serviceaccount:compass-runner:compass-runner', ...claims },
    workload: { namespace: 'compass-runner', serviceaccount: { name: 'compass-runner' } },
    header,
  })

async function enroll(token: string, mode = 'kubernetes') {
  const response = await fetch(`${edge.url}/api/enroll`, {
    method: 'POST',
    body: JSON.stringify(enrollBody(await makeRequester(), { mode, token })),
    headers: { 'content-type': 'application/json' },
  })
  const body = (await response.json()) as Partial<EnrollAnswer> & { code?: string }
  return { status: response.status, retryAfter: response.headers.get('retry-after'), ...body }
}

const codeOf = async (token: string) => {
  const { status, code = 'granted' } = await enroll(token)
  return `${status} ${code}`
}

const runCrons = async () => {
  expect((await fetch(`${edge.url}/cdn-cgi/local/scheduled`)).status).toBe(200)
}

test('a cluster file as it stands lets a node in, by a key set that comes compressed', async () => {
  expect(await enroll(await tokenOf('eks'))).toMatchObject({
    status: 200,
    tenant: 'default',
    runnerId: 'eks/node-a_example_internal',
    spiffeId: 'spiffe://rootpilot/tenant/default/runner',
  })
  expect([...issuers.eks.asked.values()]).toEqual([1, 1])
})

test('the Connect endpoint answers the same runner ID', async () => {
  const response = await fetch(`${edge.url}/muster.runner.v1.RunnerService/Enroll`, {
    method: 'POST',
    body: '{}',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${await tokenOf('eks')}` },
  })
  expect(await response.json()).toEqual({ runnerId: 'eks/node-a_example_internal' })
})

test('forty forged kids at once cost the issuer one refetch', async () => {
  expect(await codeOf(await tokenOf('flooded'))).toBe('200 granted')
  const forged = await Promise.all(Array.from({ length: 40 }, (_, i) => tokenOf('flooded', {}, { kid: `forged-${i}` })))
  expect(new Set(await Promise.all(forged.map(codeOf)))).toEqual(new Set(['401 attestation_invalid']))
  for (const asked of issuers.flooded.asked.values()) expect(asked).toBeLessThanOrEqual(2)
})

describe('an issuer', () => {
  test.each(['down', 'bloated', 'moved'] as const)('that is %s is 503 with Retry-After', async (name) => {
    const { status, code, retryAfter } = await enroll(await tokenOf(name))
    expect([status, code]).toEqual([503, 'keys_unavailable'])
    expect(Number(retryAfter)).toBeGreaterThan(0)
    expect(issuers[name].asked.size).toBe(1)
  })

  test('that is not registered is 401', async () => {
    expect(await codeOf(await tokenOf('eks', { iss: 'https://attacker.test' }))).toBe('401 attestation_invalid')
  })
})

test('a copied signing key stops both clusters, and both come back when it goes', async () => {
  const codes = async () => [await codeOf(await tokenOf('original')), await codeOf(await tokenOf('copy'))]
  expect(await codes()).toEqual(['200 granted', '200 granted'])
  const own = issuers.copy.keys
  issuers.copy.keys = issuers.original.keys
  await runCrons()
  expect(await codes()).toEqual(['503 keys_unavailable', '503 keys_unavailable'])
  issuers.copy.keys = own
  await runCrons()
  expect(await codes()).toEqual(['200 granted', '200 granted'])
})

test('a key that its issuer withdraws stops with the hourly refresh', async () => {
  const token = await tokenOf('withdrawn')
  expect(await codeOf(token)).toBe('200 granted')
  await issuers.withdrawn.rotate({ keepOld: false })
  await runCrons()
  expect(await codeOf(token)).toBe('401 attestation_invalid')
  expect(await codeOf(await tokenOf('withdrawn'))).toBe('200 granted')
})

test('nothing that was logged holds a token', async () => {
  const token = await tokenOf('eks', { aud: 'x' })
  await enroll(token)
  const [, claims = '', signature = ''] = token.split('.')
  expect(edge.lines.join('\n')).not.toContain(signature)
  expect(edge.lines.join('\n')).not.toContain(claims)
  expect(edge.lines.some((line) => line.includes('audience_mismatch'))).toBe(true)
})
