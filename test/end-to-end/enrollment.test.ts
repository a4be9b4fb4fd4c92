// Tests an enrollment end to end: a local edge, the CLI, a runner's request over TLS; OpenSSL verifies the certificate.
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Agent, request } from 'undici'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { EnrollAnswer } from '../../src/protocol/enroll.ts'
import type { Problem } from '../../src/protocol/refusals.ts'
import { enrollBody, makeRequester, type Requester } from '../fakes/requester.ts'
import { type EdgeProcess, type RunningEdge, startEdge, startEdgeProcess } from './edge.ts'

const hasOpenssl = spawnSync('openssl', ['version']).status === 0
let killed: EdgeProcess
let edge: RunningEdge
let dispatcher: Agent

beforeAll(async () => {
  killed = await startEdgeProcess()
  edge = killed
  dispatcher = trusting(edge)
})
afterAll(async () => {
  await dispatcher.close()
  await edge.stop()
})

const trusting = ({ caFile }: RunningEdge) => new Agent({ connect: { ca: readFileSync(caFile) } })

async function mint(...args: string[]): Promise<{ id: string; token: string }> {
  const { stdout, stderr, code } = await edge.muster('token', 'mint', '--tenant', 'acme', '--json', ...args)
  expect(stderr).toBe('')
  expect(code).toBe(0)
  return JSON.parse(stdout)
}

async function enroll(requester: Requester, token: string): Promise<{ status: number; text: string }> {
  const body = JSON.stringify(enrollBody(requester, { mode: 'bootstrap-token', token }))
  const answer = await request(`${edge.tlsUrl}/api/enroll`, {
    method: 'POST',
    body,
    dispatcher,
    headers: { 'content-type': 'application/json' },
  })
  return { status: answer.statusCode, text: await answer.body.text() }
}

const problem = ({ text }: { text: string }): Problem => JSON.parse(text)
const granted = ({ text }: { text: string }): EnrollAnswer => JSON.parse(text)

test('a certificate of the local edge passes OpenSSL for client and server use', async ({ skip }) => {
  if (!hasOpenssl) skip('openssl is not on the PATH')
  const answer = granted(await enroll(await makeRequester(), (await mint()).token))
  const folder = mkdtempSync(join(tmpdir(), 'muster-enroll-'))
  const [leaf, chain, roots] = ['leaf', 'chain', 'roots'].map((name) => join(folder, `${name}.pem`)) as [
    string,
    string,
    string,
  ]
  writeFileSync(leaf, answer.certificate)
  writeFileSync(chain, answer.chain)
  writeFileSync(roots, answer.trustBundle)
  for (const purpose of ['sslclient', 'sslserver']) {
    const verified = execFileSync('openssl', [
      'verify',
      '-x509_strict',
      '-purpose',
      purpose,
      '-CAfile',
      roots,
      '-untrusted',
      chain,
      leaf,
    ])
    expect(verified.toString()).toContain('OK')
  }
  const text = execFileSync('openssl', ['x509', '-in', leaf, '-noout', '-ext', 'subjectAltName']).toString()
  expect(text.match(/URI:|DNS:|IP:|email:/g)).toEqual(['URI:'])
})

describe('explain', () => {
  test('shows the reasons that the caller does not see', async () => {
    const [used, revoked, expired] = await Promise.all([mint(), mint(), mint('--ttl', '1s')])
    await enroll(await makeRequester(), used.token)
    expect((await edge.muster('token', 'revoke', revoked.id)).code).toBe(0)
    await new Promise((resolve) => setTimeout(resolve, 1100))
    const tokens = {
      token_used: used.token,
      token_revoked: revoked.token,
      token_expired: expired.token,
      token_unknown: `muster_bt_${'A'.repeat(43)}`,
    }
    const answers = await Promise.all(
      Object.entries(tokens).map(async ([reason, token]) => {
        const { requestId, serverTime: _, ...rest } = problem(await enroll(await makeRequester(), token))
        const explained = await edge.muster('explain', requestId, '--json')
        expect(JSON.parse(explained.stdout)).toMatchObject({ reason, code: 'attestation_invalid' })
        return JSON.stringify(rest)
      }),
    )
    expect(new Set(answers).size).toBe(1)
  })

  test('names the enrollment that used a token, which events lists, too', async () => {
    const { token } = await mint()
    const { enrollmentId } = granted(await enroll(await makeRequester(), token))
    const { requestId } = problem(await enroll(await makeRequester(), token))
    const { stdout } = await edge.muster('explain', requestId)
    expect(stdout).toContain(`by the enrollment ${enrollmentId}.`)
    expect(JSON.parse((await edge.muster('explain', requestId, '--json')).stdout).tokenUsedBy).toBe(enrollmentId)
    const [headers = '', ...lines] = (await edge.muster('events')).stdout.split('\n')
    const granting = lines.find((line) => line.includes('enrolled') && line.includes(enrollmentId))
    expect(granting?.indexOf(enrollmentId)).toBe(headers.indexOf('ENROLLMENT'))
    expect((await edge.muster('token', 'list')).stdout).toContain(enrollmentId)
  })

  test('says what the trust file asks for beside what was sent', async () => {
    const headers = { 'content-type': 'application/json' }
    const requester = await makeRequester()
    const evidence = { mode: 'aws-sts', region: 'cn-north-1', headers: {}, body: '' }
    const answer = await request(`${edge.tlsUrl}/api/enroll`, {
      method: 'POST',
      body: JSON.stringify(enrollBody(requester, evidence)),
      dispatcher,
      headers,
    })
    const { requestId } = (await answer.body.json()) as Problem
    const { stdout } = await edge.muster('explain', requestId)
    expect(stdout).toMatch(/trust\.yaml: aws\.regions is us-east-1, us-west-2, sa-east-1\n/)
    expect(stdout).toContain('region (claimed) cn-north-1')
    expect(stdout).not.toMatch(/Add it/)
  })

  test('of an unknown id is one line and exit 1', async () => {
    const { code, stderr } = await edge.muster('explain', '0192f3c4-0000-7000-8000-000000000000')
    expect(code).toBe(1)
    expect(stderr.trim().split('\n')).toHaveLength(1)
  })
})

test('no token and no key is in anything that the edge wrote or stored', async () => {
  const requester = await makeRequester()
  const { token } = await mint()
  await enroll(requester, token)
  await enroll(await makeRequester(), token)
  const events = await edge.muster('events', '--json', '--limit', '1000')
  const listed = await edge.muster('token', 'list', '--json')
  const written = [...edge.lines, events.stdout, listed.stdout].join('\n')
  expect(written).toContain('token_used')
  expect(written).not.toContain(token.slice('muster_bt_'.length))
  expect(written).not.toContain(requester.challengeNonce)
  expect(written).not.toMatch(/PRIVATE KEY|CERTIFICATE REQUEST/)
})

test('an edge that is killed in the middle of an enrollment gives the same enrollment when it is back', async () => {
  const requester = await makeRequester()
  const { token } = await mint()
  const { persistTo } = edge
  const cut = enroll(requester, token).catch(() => null)
  await new Promise((resolve) => setTimeout(resolve, 5))
  await killed.kill9()
  await cut
  await dispatcher.destroy()
  edge = await startEdge({ persistTo })
  dispatcher = trusting(edge)
  const first = granted(await enroll(requester, token))
  const again = granted(await enroll(requester, token))
  expect(again.enrollmentId).toBe(first.enrollmentId)
  const events = JSON.parse((await edge.muster('events', '--json')).stdout) as {
    enrollmentId: string | null
    identity: string
  }[]
  const { id } = JSON.parse((await edge.muster('token', 'list', '--json')).stdout)[0]
  expect(new Set(events.filter(({ identity }) => identity === id).map(({ enrollmentId }) => enrollmentId)).size).toBe(1)
})

test.concurrent.each([
  'token mint --tenant nobody',
  'token mint --runner-id a/b',
  'token mint --tenant acme --ttl 600',
  'token revoke nothing',
  'events --limit 0',
])('%s is refused in one line that names the value, with exit 1', async (line) => {
  const words = line.split(' ')
  const { code, stderr, stdout } = await edge.muster(...words)
  expect({ code, stdout, lines: stderr.trim().split('\n').length }).toEqual({ code: 1, stdout: '', lines: 1 })
  expect(stderr).toContain(words.at(-1))
})
