// Tests that commands say which state they wrote or looked in, and that one for another environment than the running
// edge's is refused.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { lockState, stateFolder } from '../../src/cli/edge/state.ts'
import { serveState } from '../../src/cli/edge/state-server.ts'
import { type RunningEdge, startEdge } from '../end-to-end/edge.ts'
import { runMuster } from '../end-to-end/muster.ts'

const scratch = mkdtempSync(join(tmpdir(), 'muster-states-'))
let edge: RunningEdge
beforeAll(async () => {
  edge = await startEdge()
})
afterAll(async () => {
  await edge.stop()
  rmSync(scratch, { recursive: true })
})

const ID = '0192f3c4-0000-7000-8000-000000000000'

test('every command that writes names the state that it wrote', async () => {
  const said = async (...words: string[]) => {
    const { code, stdout, stderr } = await edge.muster(...words)
    expect({ code, stderr }, words.join(' ')).toEqual({ code: 0, stderr: '' })
    expect(stdout, words.join(' ')).toContain(`the local state ${edge.persistTo}`)
    return stdout
  }
  const minted = await said('token', 'mint', '--tenant', 'acme')
  expect(minted).toMatch(/^muster_bt_\S{43}\n/)
  expect(minted).toMatch(/; with --remote, to the deployed Muster\n$/)
  const id = minted.match(/id (\S+),/)?.[1] ?? ''
  await said('ban', '--token', id)
  await said('unban', '--token', id)
  await said('token', 'revoke', id)
  const ca = join(scratch, 'ca')
  expect((await runMuster(['ca', 'init', '--dir', ca])).code).toBe(0)
  await said('ca', 'issue', '--dir', ca, '--out', join(scratch, 'out'), '--tenant', 'acme')
  await said('drain', '--tenant', 'acme')
})

test.each([
  [['--ttl', '99999999h'], /^muster: --ttl "99999999h" ends after 9999-12-31T23:59:59Z\n$/],
  [['--note', '🦊'.repeat(257)], /^muster: --note must be at most 256 printable characters\n$/],
])('muster token mint %j is refused', async (args, line) => {
  const { code, stderr } = await edge.muster('token', 'mint', '--tenant', 'acme', ...args)
  expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringMatching(line) })
})

test('a note is as long as its characters, and a token is revoked by its id in either case', async () => {
  const note = '🦊'.repeat(256)
  const { stdout } = await edge.muster('token', 'mint', '--tenant', 'acme', '--json', '--note', note)
  const { id } = JSON.parse(stdout)
  expect(await edge.muster('token', 'revoke', id.toUpperCase())).toMatchObject({ code: 0, stderr: '' })
  const listed = JSON.parse((await edge.muster('token', 'list', '--json')).stdout)
  expect(listed).toContainEqual(expect.objectContaining({ id, note, state: 'revoked' }))
})

test('what token mint prints as JSON is what it is contracted to be', async () => {
  const { stdout } = await edge.muster('token', 'mint', '--tenant', 'acme', '--json')
  expect(Object.keys(JSON.parse(stdout))).toEqual(['id', 'token', 'tenant', 'runnerId', 'expiresAt'])
})

test.each([
  ['explain', ID],
  ['token', 'revoke', ID],
  ['unban', '--enrollment', ID],
  ['ban', '--enrollment', ID],
  ['ban', '--token', ID],
  ['drain', '--enrollment', ID],
])('muster %s %s names the state that it looked in, and the way to another', async (...words) => {
  const { code, stdout, stderr } = await edge.muster(...words)
  expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
  expect(stderr).toMatch(/^muster: [^\n]+\n$/)
  expect(stderr).toContain(`the local state ${edge.persistTo}`)
  expect(stderr).toContain('--remote names the deployed Muster, --persist-to and --env another local state')
})

test('an environment that wrangler.toml lacks is refused, also for the deployed state and in the variable', async () => {
  const env = { CLOUDFLARE_ENV: 'stagin' }
  const refused = await runMuster(['bans', '--persist-to', join(scratch, 'misspelt'), '--remote'], { env })
  expect(refused).toEqual({ code: 1, stdout: '', stderr: 'muster: wrangler.toml: there is no environment "stagin"\n' })
})

describe('beside a running edge', () => {
  test('a command with the edge’s environment uses the edge', async () => {
    expect(JSON.parse(readFileSync(join(edge.persistTo, 'muster/edge.json'), 'utf8'))).toMatchObject({
      environment: null,
    })
    expect(await edge.muster('bans')).toMatchObject({ code: 0 })
  })

  test('a command with another trust file than the edge’s says so', async () => {
    const trust = join(scratch, 'trust.yaml')
    writeFileSync(trust, 'tenants: [{ slug: acme }, { slug: new }]')
    const mint = ['token', 'mint', '--tenant', 'new', '--persist-to', edge.persistTo, '--trust', trust]
    expect((await runMuster(mint)).stdout).toMatch(
      /\nthe edge that runs on it decides by another trust file than \S+trust\.yaml is now: start it again\n$/,
    )
    expect((await edge.muster('token', 'mint', '--tenant', 'acme')).stdout).not.toContain('another trust file')
  })

  test.each([
    ['staging', {}, 'has environment staging, the command no environment'],
    [null, { CLOUDFLARE_ENV: 'staging' }, 'has no environment, the command environment staging'],
    ['other', { CLOUDFLARE_ENV: 'staging' }, 'has environment other, the command environment staging'],
  ])('of environment %j, a command with %j is refused', async (environment, env, message) => {
    const state = stateFolder(join(scratch, `state-${environment}`))
    const unlock = lockState(state)
    const close = await serveState(state, async () => [], { environment, trustHash: '', shards: [0] })
    const { code, stdout, stderr } = await runMuster(['token', 'list', '--persist-to', state.root], { env })
    await close()
    unlock?.()
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
    expect(stderr).toBe(
      `muster: the edge that runs on ${state.root} ${message}: give both the same --env, or each its own --persist-to\n`,
    )
  })
})
