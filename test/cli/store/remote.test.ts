// Tests commands on the deployed D1: the requests to Cloudflare's API, its answers, and the messages when it fails.
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { queryD1 } from '../../../src/cli/store/remote.ts'
import { closeServer, listen } from '../../../src/node/server.ts'
import { epochSeconds } from '../../../src/protocol/time.ts'
import { insertBan, listBans } from '../../../src/worker/store/bans.ts'
import { openThrough } from '../../../src/worker/store/proxy.ts'
import { runMuster } from '../../end-to-end/muster.ts'
import { PROJECT } from '../../end-to-end/processes.ts'
import { type FakeApi, serveCloudflareApi } from '../../fakes/cloudflare-api.ts'

let api: FakeApi
const project = mkdtempSync(join(tmpdir(), 'muster-remote-'))
const main = join(project, 'src/cli/main.ts')
const configuration = readFileSync(join(PROJECT, 'wrangler.toml'), 'utf8')

/** A checkout whose wrangler.toml names a database. */
const configure = (databaseId: string, head = '') =>
  writeFileSync(
    join(project, 'wrangler.toml'),
    `${head}\n${configuration.replace(/^database_id = .*$/m, `database_id = "${databaseId}"`)}`,
  )

beforeAll(async () => {
  api = await serveCloudflareApi()
  for (const name of ['src', 'migrations', 'package.json', 'tsconfig.json', 'trust.yaml']) {
    cpSync(join(PROJECT, name), join(project, name), { recursive: true })
  }
  symlinkSync(join(PROJECT, 'node_modules'), join(project, 'node_modules'))
  configure(api.database)
  process.env.CLOUDFLARE_API_BASE_URL = api.url
})
afterAll(async () => {
  delete process.env.CLOUDFLARE_API_BASE_URL
  await api.close()
  rmSync(project, { recursive: true })
})

describe('a statement', () => {
  const value = fc.oneof(
    fc.string({ unit: 'binary' }),
    fc.constantFrom("'", "''", '?', '--', '/*', "'; DROP TABLE token; --", '"', '\\', '\n', 'a\0b', '😀', '\u202e'),
    fc.maxSafeInteger(),
    fc.constant(null),
  )
  const query = () => queryD1({ authorization: `Bearer ${api.token}` }, api.account, api.database)

  test('takes its values beside it, whatever they are', async () => {
    await fc.assert(
      fc.asyncProperty(value, value, async (...values) => {
        expect(await query()('SELECT ? AS a, ? AS a', values)).toEqual([values])
        expect(api.statements.at(-1)).toEqual({ sql: 'SELECT ? AS a, ? AS a', params: values })
      }),
    )
  })

  test('of the store writes and reads hostile text as it is', async () => {
    const db = openThrough(query())
    const createdAt = epochSeconds(1_700_000_000)
    const rows = ["'; DROP TABLE ban; --", 'a\0b', '“😀”', '?'].map(
      (text) => ({ kind: 'identity', value: text, note: text, createdAt }) as const,
    )
    for (const row of rows) await insertBan(db, row)
    const kept = (await listBans(db)).map(({ sweptAt: _, ...row }) => row)
    expect(
      kept.sort((a, b) => rows.findIndex((r) => r.value === a.value) - rows.findIndex((r) => r.value === b.value)),
    ).toEqual(rows)
  })

  test('that SQLite does not take is an error with its words', async () => {
    await expect(query()('SELECT * FROM nowhere', [])).rejects.toThrow('no such table: nowhere: SQLITE_ERROR')
  })
})

describe('a command with --remote', () => {
  const muster = (args: string[], env: Record<string, string> = {}) =>
    runMuster([...args, '--remote'], { env: { CLOUDFLARE_API_TOKEN: api.token, ...env }, cwd: project, main })
  const refusal = async (env: Record<string, string> = {}, ...more: string[]) => {
    const { code, stdout, stderr } = await muster(['bans', ...more], env)
    expect([code, stdout]).toEqual([1, ''])
    expect(stderr.trimEnd().split('\n')).toHaveLength(1)
    return stderr
  }

  test('mints, lists and revokes a token in the deployed database', async () => {
    const note = `it's "for" ci`
    const minted = await muster(['token', 'mint', '--tenant', 'acme', '--note', note, '--json'])
    expect(minted).toMatchObject({ code: 0, stderr: '' })
    const { id } = JSON.parse(minted.stdout)
    const listed = await muster(['token', 'list', '--json'])
    expect(JSON.parse(listed.stdout)).toEqual([expect.objectContaining({ id, tenant: 'acme', note, state: 'live' })])
    const revoked = await muster(['token', 'revoke', id])
    expect(revoked).toMatchObject({ code: 0, stderr: '' })
    const state = `the deployed database muster (${api.database})`
    expect(revoked.stdout).toContain(`revoked ${id} in ${state};`)
    expect((await muster(['token', 'mint', '--tenant', 'acme'])).stdout).toMatch(
      /\nwritten to the deployed database \S+ \(\S+\)\n$/,
    )
    const unknown = await muster(['explain', '0192f3c4-5678-7abc-8def-0123456789ab'])
    expect(unknown).toMatchObject({ code: 1, stdout: '' })
    expect(unknown.stderr).toContain(`no event in ${state} has the request id`)
    expect(unknown.stderr).toContain('(without --remote it is the local state)')
    // What the token is goes nowhere.
    expect(JSON.stringify(api.statements)).not.toContain(JSON.parse(minted.stdout).token)
  })

  test('says who has to do what where there is no login', async () => {
    const home = join(project, 'home')
    expect(await refusal({ CLOUDFLARE_API_TOKEN: '', HOME: home, XDG_CONFIG_HOME: home })).toBe(
      'muster: there is no login at Cloudflare: run npx wrangler login, or set CLOUDFLARE_API_TOKEN\n',
    )
    // A login that wrangler finds and the API does not know.
    const key = { CLOUDFLARE_API_TOKEN: '', CLOUDFLARE_API_KEY: 'key', CLOUDFLARE_EMAIL: 'ops@acme.example' }
    expect(await refusal(key)).toMatch(
      /^muster: Cloudflare does not take the login \(Authentication error\): run npx wrangler login, /,
    )
  })

  test('says in one line what is wrong in wrangler.toml', async () => {
    configure(api.database, 'account_id = 5')
    expect(await refusal()).toContain('wrangler.toml: Expected "account_id" to be of type string but got 5.')
    writeFileSync(join(project, 'wrangler.toml'), `${configuration}\n[env.staging]\nname = "staging"\n`)
    expect(await refusal({}, '--env', 'nope')).toBe('muster: wrangler.toml: there is no environment "nope"\n')
    configure(api.database)
  })

  test('is not for --local, too', async () => {
    expect(await refusal({}, '--local')).toContain("'--local' cannot be used with option '--remote'")
  })

  test('says that the API is away', async () => {
    expect(await refusal({ CLOUDFLARE_API_BASE_URL: 'http://127.0.0.1:1' })).toMatch(
      /^muster: Cloudflare's API is not reached: 127\.0\.0\.1:1: connect ECONNREFUSED /,
    )
  })

  test.each([
    '{"success":true}',
    '{"success":false,"errors":"many"}',
    '[]',
    '{"success":true,"result":[{"results":7}]}',
    'no',
  ])('says in one line that an answer is not the API’s: %s', async (body) => {
    const stranger = createServer((_, response) => response.end(body))
    const port = await listen(stranger, 0, '127.0.0.1')
    const env = { CLOUDFLARE_API_BASE_URL: `http://127.0.0.1:${port}`, CLOUDFLARE_ACCOUNT_ID: api.account }
    expect(await refusal(env)).toMatch(/^muster: [^\n]+ (status 200|not what Cloudflare’s API answers)\n$/)
    await closeServer(stranger)
  })

  test('takes the account from the environment, from wrangler.toml, or from the login where it has one', async () => {
    api.accounts.push({ id: 'b'.repeat(32), name: 'Other' })
    expect(await refusal()).toContain('several accounts: set account_id in wrangler.toml, or CLOUDFLARE_ACCOUNT_ID')
    expect(await muster(['bans'], { CLOUDFLARE_ACCOUNT_ID: api.account })).toMatchObject({ code: 0 })
    configure(api.database, `account_id = "${api.account}"`)
    expect(await muster(['bans'])).toMatchObject({ code: 0 })
    api.accounts.pop()
  })

  test('takes the database of the environment that --env names, and says where an id is missing or wrong', async () => {
    const other = '99999999-2222-4333-8444-555555555555'
    const environment = `[env.staging]\n[[env.staging.d1_databases]]\nbinding = "DB"\ndatabase_name = "s"\ndatabase_id = "${other}"\n`
    configure(api.database)
    writeFileSync(
      join(project, 'wrangler.toml'),
      `${readFileSync(join(project, 'wrangler.toml'), 'utf8')}\n${environment}`,
    )
    expect(await refusal({}, '--env', 'staging')).toContain(`no database ${other} in account ${api.account}`)
    configure('00000000-0000-0000-0000-000000000000')
    expect(await refusal()).toBe(
      'muster: wrangler.toml names no deployed database: set database_id to what `npx wrangler d1 create muster` prints\n',
    )
  })
})
