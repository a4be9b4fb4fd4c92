// Tests `muster trust` as an operator runs it, and as wrangler does before a deploy.
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { runMuster, spawnMuster } from '../end-to-end/muster.ts'
import { selfSigned } from '../fakes/forward-proxy.ts'

const folder = mkdtempSync(join(tmpdir(), 'muster-trust-'))
const write = (name: string, text: string): string => {
  const path = join(folder, name)
  writeFileSync(path, text)
  return path
}

const BROKEN = 'trustDomain: A\ntenants:\n  - slug: B\nextra: 1\n'

test('check names every mistake with file, line and column, and exits with 1', async () => {
  const path = write('broken.yaml', BROKEN)
  const { code, stdout, stderr } = await runMuster(['trust', 'check', '--trust', path])
  expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
  const places = stderr
    .trim()
    .split('\n')
    .map((line) => line.slice(0, path.length + 6))
  expect(places).toEqual([`${path}:1:14:`, `${path}:3:11:`, `${path}:4:1: `])
})

test('check counts the tenants that are written, and says which one is the bootstrapTenant alone', async () => {
  const check = async (text: string) =>
    (await runMuster(['trust', 'check', '--trust', write('count.yaml', text)])).stdout
  const unlisted = await check('tenants: [{slug: a}]')
  expect(unlisted).toContain('no mistakes: 1 tenant, 0 clusters')
  expect(unlisted).toContain(
    '\ndefault is the bootstrapTenant; it has no entry under tenants, and nothing else names it\n',
  )
  expect(await check('bootstrapTenant: b')).toMatch(/no mistakes: 0 tenants(.|\n)*\nb is the bootstrapTenant;/)
  const cluster = '{name: lab, issuer: "https://k3s.example", namespace: a, serviceAccount: b}'
  expect(await check(`clusters: [${cluster}]`)).toContain(
    'it has no entry under tenants, and the ServiceAccount that the entry of lab names enrolls into it\n',
  )
  const listed = await check('tenants: [{slug: a}, {slug: b}]\nbootstrapTenant: b')
  expect(listed).toContain('no mistakes: 2 tenants')
  expect(listed).not.toContain('is the bootstrapTenant')
})

test.each(['token mint', 'token mint --runner-id build-7'])(
  'muster %s takes the tenants of the trust file and the bootstrapTenant alone, and says which that is',
  async (words) => {
    const trust = write('mint.yaml', 'tenants: [{slug: a}]')
    const mint = (tenant: string) =>
      runMuster([...words.split(' '), '--tenant', tenant, '--trust', trust, '--persist-to', join(folder, 'state')])
    expect(await mint('nobody')).toMatchObject({ code: 1, stderr: expect.stringContaining('there is a, default') })
    const note = `\ndefault is the bootstrapTenant of ${trust}; it has no entry there, and nothing else names it\n`
    expect((await mint('default')).stdout).toContain(note)
    const minted = await mint('a')
    expect(minted.code).toBe(0)
    expect(minted.stdout).not.toContain('bootstrapTenant')
  },
)

test('check as JSON has the same for a program', async () => {
  const { code, stdout } = await runMuster(['trust', 'check', '--json', '--trust', write('broken.yaml', BROKEN)])
  expect(code).toBe(1)
  expect(JSON.parse(stdout)).toMatchObject({ ok: false, mistakes: [{ line: 1, column: 14 }, { line: 3 }, { line: 4 }] })
  const right = await runMuster(['trust', 'check', '--json', '--trust', write('right.yaml', 'tenants: [{slug: a}]')])
  expect(JSON.parse(right.stdout)).toMatchObject({
    ok: true,
    mistakes: [],
    hash: expect.stringMatching(/^[0-9a-f]{64}$/),
  })
})

test('files that the trust file names are found beside it', async () => {
  write(
    'keys.json',
    '{"keys":[{"kty":"EC","crv":"P-256","kid":"a","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]}',
  )
  const path = write('files.yaml', 'clusters: [{name: a, issuer: "https://a.example.com", jwksFile: keys.json}]')
  expect((await runMuster(['trust', 'check', '--trust', path])).code).toBe(0)
})

test('a file over the limit is refused at its beginning', async () => {
  const path = write('huge.yaml', '# x\n'.repeat(1_250_000))
  const { code, stderr } = await runMuster(['trust', 'check', '--trust', path])
  expect({ code, stderr }).toEqual({ code: 1, stderr: `${path}:1:1: the file has more than 524288 bytes\n` })
})

test('check takes a caFile with an unreadable certificate among good ones and notes its place; none left is a mistake', async () => {
  const { cert } = await selfSigned({ type: 'dns', value: 'ca.test' })
  // Whole as a PEM, and cut within.
  const cut = '-----BEGIN CERTIFICATE-----\nMIIBszCCAVmgAwIBAgIB\n-----END CERTIFICATE-----\n'
  write('bundle.pem', cert + cut + cert)
  write('bad.pem', cut)
  const fileWith = (ca: string) =>
    write(`with-${ca}.yaml`, `clusters: [{name: a, issuer: "https://a.example.com", caFile: ${ca}}]`)
  const good = await runMuster(['trust', 'check', '--json', '--trust', fileWith('bundle.pem')])
  const line = cert.trimEnd().split('\n').length + 1
  const note = `clusters[0].caFile "bundle.pem": block 2 at line ${line} cannot be read as a certificate: it is passed over`
  expect(JSON.parse(good.stdout)).toMatchObject({ ok: true, notes: expect.arrayContaining([note]) })
  const bad = await runMuster(['trust', 'check', '--trust', fileWith('bad.pem')])
  expect(bad).toMatchObject({ code: 1, stderr: expect.stringContaining('block 1 at line 1 cannot be read') })
})

test('check --remote says what only the local edge would honour', async () => {
  write('ca.pem', (await selfSigned({ type: 'dns', value: 'ca.test' })).cert)
  const path = write('private.yaml', 'clusters: [{name: a, issuer: "https://10.0.0.5", caFile: ca.pem}]')
  const local = await runMuster(['trust', 'check', '--trust', path])
  expect(local.code).toBe(0)
  expect(local.stdout).toMatch(/note: cluster a: only `muster dev` honours its caFile/)
  const remote = await runMuster(['trust', 'check', '--remote', '--trust', path])
  expect(remote).toMatchObject({ code: 1, stdout: '' })
  expect(remote.stderr).toMatch(/:1:58: clusters\[0\]\.caFile: .*binding .*or jwksFile\n$/)
})

test("Cluster's own file with a private issuer loads with a warning, and only its deploy is refused", async () => {
  const entry =
    '{name: lab, issuer: "https://kubernetes.default.svc", namespace: compass-runner, serviceAccount: compass-runner}'
  const path = write('own.yaml', `clusters: [${entry}]`)
  const local = await runMuster(['trust', 'check', '--trust', path])
  expect(local.code).toBe(0)
  expect(local.stdout).toMatch(/note: cluster lab: https:\/\/kubernetes\.default\.svc is private.*binding, jwksFile/)
  const remote = await runMuster(['trust', 'check', '--remote', '--trust', path])
  expect(remote).toMatchObject({ code: 1, stdout: '' })
  expect(remote.stderr).toMatch(/:1:\d+: clusters\[0\]\.issuer .*binding .*jwksFile .*\n$/)
})

test('a file that is not there is one line that says how to name another', async () => {
  const { code, stderr } = await runMuster(['trust', 'check', '--trust', join(folder, 'none.yaml')])
  expect(code).toBe(1)
  expect(stderr).toMatch(/^muster: the trust file .*none\.yaml does not exist; name another with --trust\n$/)
})

test('muster dev does not start on a broken file and names every mistake', async () => {
  const path = write('broken.yaml', BROKEN)
  const { code, stderr } = await spawnMuster([
    'dev',
    '--port',
    '0',
    '--tls-port',
    '0',
    '--trust',
    path,
    '--persist-to',
    join(folder, 'state'),
  ])
  expect(code).toBe(1)
  for (const place of [':1:14:', ':3:11:', ':4:1:']) expect(stderr).toContain(`${path}${place}`)
})

test('build leaves no earlier good file behind for a broken one', async () => {
  const checkout = mkdtempSync(join(tmpdir(), 'muster-build-'))
  const compiled = join(checkout, '.muster/trust.json')
  const buildAsItIs = () => runMuster(['trust', 'build'], { cwd: checkout })
  const build = (text: string) => {
    writeFileSync(join(checkout, 'trust.yaml'), text)
    return buildAsItIs()
  }
  expect((await build('tenants: [{slug: a}]')).code).toBe(0)
  expect(JSON.parse(readFileSync(compiled, 'utf8'))).toMatchObject({ version: 1, tenants: ['a', 'default'] })
  expect((await build(BROKEN)).code).toBe(1)
  expect(existsSync(compiled)).toBe(false)
  expect((await build('tenants: [{slug: a}]')).code).toBe(0)
  rmSync(join(checkout, 'trust.yaml'))
  expect((await buildAsItIs()).code).toBe(1)
  expect(existsSync(compiled)).toBe(false)
})

test('build refuses what a deployed Worker cannot reach where wrangler deploys it, and takes it for dev', async () => {
  const checkout = mkdtempSync(join(tmpdir(), 'muster-build-'))
  writeFileSync(join(checkout, 'trust.yaml'), 'clusters: [{name: lab, issuer: "https://10.0.0.5"}]')
  const buildBy = (WRANGLER_COMMAND: string) =>
    runMuster(['trust', 'build'], { cwd: checkout, env: { WRANGLER_COMMAND } })
  expect((await buildBy('dev')).code).toBe(0)
  for (const command of ['deploy', 'versions upload']) {
    const { code, stderr } = await buildBy(command)
    expect([command, code]).toEqual([command, 1])
    expect(stderr).toContain('clusters[0].issuer')
  }
})

test('the schema describes every field that the compiler takes, and no other', async () => {
  const schema = JSON.parse((await runMuster(['trust', 'schema'])).stdout)
  // An unknown field is reported together with the known ones.
  const takenAt = async (text: string): Promise<string[]> => {
    const { stderr } = await runMuster(['trust', 'check', '--trust', write('unknown.yaml', text)])
    return (stderr.split('extra"; there is ')[1] ?? '').split('\n', 1)[0]?.split(', ') ?? []
  }
  const cluster = schema.properties.clusters.items
  const tenant = schema.properties.tenants.items
  for (const [text, described] of [
    ['extra: 1', schema],
    ['certificate: {extra: 1}', schema.properties.certificate],
    ['clusters: [{extra: 1}]', cluster],
    ['clusters: [{gke: {extra: 1}}]', cluster.properties.gke],
    ['tenants: [{slug: a, aws: [{extra: 1}]}]', tenant.properties.aws.items],
    ['tenants: [{slug: a, kubernetes: [{extra: 1}]}]', tenant.properties.kubernetes.items],
  ]) {
    const fields = Object.keys(described.properties)
    expect(fields.length).toBeGreaterThan(2)
    expect([text, await takenAt(text)]).toEqual([text, fields])
    expect(described.additionalProperties).toBe(false)
  }
})
