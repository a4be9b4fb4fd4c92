// Tests the commands on a Muster with three databases: alone on the local state, beside a running edge, and deployed.
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Edge } from '../../../src/cli/edge/start.ts'
import { runMuster } from '../../end-to-end/muster.ts'
import { PROJECT } from '../../end-to-end/processes.ts'
import { type FakeApi, serveCloudflareApi } from '../../fakes/cloudflare-api.ts'
import { enrollBody, makeRequester } from '../../fakes/requester.ts'

const project = mkdtempSync(join(tmpdir(), 'muster-shards-'))
const main = join(project, 'src/cli/main.ts')
const configuration = readFileSync(join(PROJECT, 'wrangler.toml'), 'utf8')
const TRUST = `tenants:
  - { slug: acme }
  - slug: globex
    shard: 1
  - { slug: initech, shard: 2 }
`
let api: FakeApi

const databaseOf = (binding: string, id: string) =>
  `[[d1_databases]]\nbinding = "${binding}"\ndatabase_name = "${binding.toLowerCase()}"\ndatabase_id = "${id}"\nmigrations_dir = "migrations"\n`

const configure = (...more: readonly string[]) =>
  writeFileSync(
    join(project, 'wrangler.toml'),
    [configuration.replace(/^database_id = .*$/m, `database_id = "${api.database}"`), ...more].join('\n'),
  )
const configureAll = () => configure(...api.otherDatabases.map((id, i) => databaseOf(`DB_${i + 1}`, id)))

beforeAll(async () => {
  api = await serveCloudflareApi()
  for (const name of ['src', 'migrations', 'package.json', 'package-lock.json', 'tsconfig.json']) {
    cpSync(join(PROJECT, name), join(project, name), { recursive: true })
  }
  symlinkSync(join(PROJECT, 'node_modules'), join(project, 'node_modules'))
  writeFileSync(join(project, 'trust.yaml'), TRUST)
  configureAll()
})
afterAll(async () => {
  await api.close()
  rmSync(project, { recursive: true })
})

const muster = (args: string[]) => {
  const env = { CLOUDFLARE_API_TOKEN: api.token, CLOUDFLARE_API_BASE_URL: api.url }
  return runMuster(args, { cwd: project, main, env })
}

/** What a command prints as JSON. */
async function printed(...args: string[]) {
  const { code, stdout, stderr } = await muster([...args, '--json'])
  expect({ code, stderr }, args.join(' ')).toEqual({ code: 0, stderr: '' })
  return JSON.parse(stdout)
}

const TENANTS = ['acme', 'globex', 'initech']
const refused = async (...args: string[]) => {
  const { code, stderr } = await muster(args)
  expect(code).toBe(1)
  return stderr
}

let edge: Edge
const state = join(project, 'beside')
beforeAll(async () => {
  const { startEdge }: typeof import('../../../src/cli/edge/start.ts') = await import(
    join(project, 'src/cli/edge/start.ts')
  )
  const { readTrust }: typeof import('../../../src/cli/operator/trust-file.ts') = await import(
    join(project, 'src/cli/operator/trust-file.ts')
  )
  edge = await startEdge({
    port: 0,
    tlsPort: 0,
    persistTo: state,
    trust: await readTrust(join(project, 'trust.yaml')),
    variables: {},
    origins: new Map(),
    rateLimits: false,
    log: () => {},
  })
})
afterAll(() => edge.stop())

describe.each([
  ['beside an edge', ['--persist-to', state]],
  ['with --remote', ['--remote']],
])('%s', (_, where) => {
  test('tokens are minted into the databases of their tenants, listed newest first, and revoked by id', async () => {
    const ids: string[] = []
    for (const tenant of [...TENANTS, ...TENANTS]) {
      ids.unshift((await printed('token', 'mint', '--tenant', tenant, ...where)).id)
    }
    const listed = await printed('token', 'list', ...where)
    expect(listed.map(({ id }: { id: string }) => id)).toEqual(ids)
    for (const id of ids) await printed('token', 'revoke', id, ...where)
    const after = await printed('token', 'list', ...where)
    expect(after.map((token: { state: string }) => token.state)).toEqual(ids.map(() => 'revoked'))
    expect(await refused('token', 'revoke', '0192f3c4-5678-7abc-8def-0123456789ab', ...where)).toContain(
      'there is no token',
    )
  })

  test('a ban is listed once, can be repeated, and is lifted everywhere', async () => {
    const name = ['--runner-id', 'build-7', ...where]
    expect(await printed('ban', ...name, '--note', 'first')).toMatchObject({ kind: 'runner-id', runners: 0 })
    expect(await printed('ban', ...name, '--note', 'second')).toMatchObject({ note: 'second' })
    expect(await printed('bans', ...where)).toEqual([expect.objectContaining({ value: 'build-7', note: 'second' })])
    expect(await printed('unban', ...name)).toMatchObject({ value: 'build-7' })
    expect(await printed('bans', ...where)).toEqual([])
    expect(await refused('unban', ...name)).toContain('there is no ban of runner-id "build-7"')
  })

  test('provisioned enrollments are counted and drained in every database', async () => {
    const ca = join(project, `ca${where.length}${where.at(-1)?.length}`)
    await printed('ca', 'init', '--dir', ca)
    const issued: string[] = []
    for (const tenant of TENANTS) {
      const out = join(ca, tenant)
      issued.push((await printed('ca', 'issue', '--dir', ca, '--out', out, '--tenant', tenant, ...where)).enrollmentId)
    }
    for (const [i, tenant] of TENANTS.entries()) {
      expect(await printed('drain', '--tenant', tenant, ...where)).toMatchObject({ enrollments: [issued[i]] })
      expect(await printed('ban', '--enrollment', issued[i] ?? '', ...where)).toMatchObject({ runners: 1 })
    }
    await printed('ca', 'rotate', 'prepare', '--dir', ca)
    await muster(['ca', 'rotate', 'activate', '--dir', ca, '--force'])
    expect(await refused('ca', 'rotate', 'retire', '--dir', ca, ...where)).toContain('3 live runners hold certificates')
  })
})

test('alone, a command uses the databases that the next edge has', async () => {
  const where = ['--persist-to', join(project, 'alone')]
  const { id } = await printed('token', 'mint', '--tenant', 'initech', ...where)
  expect(await printed('token', 'list', ...where)).toEqual([expect.objectContaining({ id, tenant: 'initech' })])
})

test('beside an edge, each tenant enrolls, and its event is explained and listed', async () => {
  const requests: string[] = []
  for (const tenant of TENANTS) {
    const { token } = await printed('token', 'mint', '--tenant', tenant, '--persist-to', state)
    const answer = await fetch(`${edge.url}/api/enroll`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(enrollBody(await makeRequester(), { mode: 'bootstrap-token', token })),
    })
    expect(await answer.json()).toMatchObject({ tenant })
    requests.unshift(answer.headers.get('x-request-id') ?? '')
  }
  await expect
    .poll(async () => (await printed('events', '--persist-to', state)).map((e: { requestId: string }) => e.requestId), {
      timeout: 60_000,
    })
    .toEqual(requests)
  const [newest] = await printed('events', '--limit', '1', '--persist-to', state)
  expect(newest).toMatchObject({ requestId: requests[0], tenant: 'initech' })
  for (const [i, id] of requests.entries())
    expect(await printed('explain', id, '--persist-to', state)).toMatchObject({ tenant: TENANTS[2 - i] })
})

describe('a deployed database that is away', () => {
  test('keeps a ban out of no other, and the same command mends it', async () => {
    const [globex = ''] = api.otherDatabases
    const { enrollmentId } = await printed('ca', 'init', '--dir', join(project, 'ca-away')).then(() =>
      printed(
        'ca',
        'issue',
        '--dir',
        join(project, 'ca-away'),
        '--out',
        join(project, 'out-away'),
        '--tenant',
        'acme',
        '--remote',
      ),
    )
    api.away.add(globex)
    const ban = ['ban', '--enrollment', enrollmentId, '--remote']
    const early = await refused('ban', '--tenant', 'initech', '--remote')
    expect(early).toContain('the database DB_1: the database is away (it is written to')
    expect(await refused(...ban)).toBe(
      'muster: the database DB_1: the database is away (it is written to the databases that answer: repeat the command once all do)\n',
    )
    const written = api.statements.filter(
      ({ sql, params }) => /^insert into "ban"/i.test(sql) && params.includes(enrollmentId),
    )
    expect(written).toHaveLength(2)
    expect(await refused('bans', '--remote')).toBe('muster: the database DB_1: the database is away\n')
    api.away.delete(globex)
    expect((await muster(ban)).code).toBe(0)
    expect(await printed('bans', '--remote')).toContainEqual(
      expect.objectContaining({ value: enrollmentId, runners: 1 }),
    )
  })

  test('is named beside every other one that is away, and that none took it is said', async () => {
    const ban = ['ban', '--runner-id', 'build-9', '--remote']
    const away = (binding: string) => `the database ${binding}: the database is away`
    for (const id of api.otherDatabases) api.away.add(id)
    expect(await refused(...ban)).toBe(
      `muster: ${away('DB_1')}; ${away('DB_2')} (it is written to the databases that answer: repeat the command once all do)\n`,
    )
    api.away.add(api.database)
    expect(await refused(...ban)).toBe(
      `muster: ${away('DB')}; ${away('DB_1')}; ${away('DB_2')} (no database took it: repeat the command once all do)\n`,
    )
    api.away.clear()
    await printed('unban', '--runner-id', 'build-9', '--remote')
  })

  test('does not look banned and swept where the ban never got to it', async () => {
    api.away.add(api.database)
    const ban = ['--runner-id', 'build-8', '--remote']
    expect(await refused('ban', ...ban)).toContain('the database DB: the database is away')
    api.away.delete(api.database)
    api.run(api.otherDatabases, "UPDATE ban SET swept_at = created_at WHERE value = 'build-8'")
    const listed = async () =>
      (await printed('bans', '--remote')).find((row: { value: string }) => row.value === 'build-8')
    expect(await listed()).toMatchObject({ everywhere: false, tunnelsClosedAt: null })
    expect((await muster(['bans', '--remote'])).stdout).toContain(
      '\nthe ban of runner-id build-8 is not in every database, so the tenants of some are not held to it: ban again, or unban\n',
    )
    await printed('ban', ...ban)
    expect(await listed()).toMatchObject({ everywhere: true })
    await printed('unban', ...ban)
  })
})

test('a command names the deployed database that it wrote to, and one on all names all', async () => {
  const minted = (await muster(['token', 'mint', '--tenant', 'globex', '--remote'])).stdout
  expect(minted).toContain(`written to the deployed database db_1 (${api.otherDatabases[0]})\n`)
  const listed = await muster(['unban', '--tenant', 'acme', '--remote'])
  expect(listed.stderr).toContain(
    `in the deployed databases muster (${api.database}), db_1 (${api.otherDatabases[0]}), db_2 (`,
  )
})

describe('wrangler.toml', () => {
  test('that lacks a database of the trust file is an error of trust check, with its place', async () => {
    expect((await muster(['trust', 'check', '--persist-to', join(project, 'none')])).stdout).toMatch(
      /\ntenant globex is in the database DB_1\ntenant initech is in the database DB_2\n/,
    )
    configure(databaseOf('DB_1', api.otherDatabases[0]))
    expect(await refused('trust', 'check')).toBe(
      'trust.yaml:5:29: tenants[2].shard 2 is the database DB_2, which wrangler.toml does not bind: add it to [[d1_databases]], migrate it and deploy first\n',
    )
    expect(await refused('token', 'mint', '--tenant', 'initech', '--remote')).toBe(
      'muster: the tenant initech is in the database DB_2, which wrangler.toml does not bind: see muster trust check\n',
    )
    configureAll()
  })

  test('that gives two shards one database, or names none yet, is refused', async () => {
    configure(databaseOf('DB_1', api.database))
    expect(await refused('bans', '--remote')).toBe(
      'muster: wrangler.toml: DB and DB_1 have one database_id: each needs a database of its own\n',
    )
    configure(databaseOf('DB_1', '00000000-0000-0000-0000-000000000001'), databaseOf('DB_2', '0'))
    expect(await refused('bans', '--remote')).toBe(
      'muster: wrangler.toml names no deployed database for DB_2: set database_id to what `npx wrangler d1 create muster-2` prints\n',
    )
    configureAll()
  })
})
