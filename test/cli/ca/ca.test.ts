// Tests `muster ca init`, `ca show` and `ca issue`.
import { createPrivateKey, X509Certificate } from 'node:crypto'
import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseEnv } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { withDatabases } from '../../../src/cli/store/database.ts'
import { parsePem } from '../../../src/protocol/pem.ts'
import { systemClock, toEpochSeconds } from '../../../src/protocol/time.ts'
import { isUuidv7 } from '../../../src/protocol/uuid.ts'
import { loadAuthority } from '../../../src/worker/ca/authority.ts'
import { verifyPresented } from '../../../src/worker/ca/presented.ts'
import { countNamed } from '../../../src/worker/store/bans.ts'
import { findEnrollment } from '../../../src/worker/store/enrollments.ts'
import { runMuster, spawnMuster } from '../../end-to-end/muster.ts'

const dir = mkdtempSync(join(tmpdir(), 'muster-ca-cli-'))
afterAll(() => rmSync(dir, { recursive: true }))
const path = (...names: string[]) => join(dir, ...names)
const read = (...names: string[]) => readFileSync(path(...names), 'utf8')
const modeOf = (...names: string[]) => (statSync(path(...names)).mode & 0o777).toString(8)

const options = { cwd: dir, env: { NO_COLOR: '1' } }
const muster = (...args: string[]) => runMuster(args, options)

const SHARED = ['--trust', 'trust.yaml', '--persist-to', 'state']

beforeAll(async () => {
  writeFileSync(path('trust.yaml'), 'trustDomain: rootpilot\ntenants:\n  - slug: acme\n')
  const made = await spawnMuster(['ca', 'init', '--dir', 'ca', '--dev-vars', '--json'], options)
  expect(made).toMatchObject({ code: 0, stderr: '' })
  expect(JSON.parse(made.stdout)).toMatchObject({
    dir: 'ca',
    files: ['ca/root.key.pem', 'ca/root.pem', 'ca/issuing.key.pem', 'ca/issuing.pem', '.dev.vars'],
  })
})

describe('muster ca init', () => {
  test('writes four files, the keys for the owner alone', () => {
    expect(readdirSync(path('ca')).sort()).toEqual(['issuing.key.pem', 'issuing.pem', 'root.key.pem', 'root.pem'])
    expect(modeOf('ca', 'root.key.pem')).toBe('600')
    expect(modeOf('ca', 'issuing.key.pem')).toBe('600')
    expect(modeOf('.dev.vars')).toBe('600')
  })

  test('makes a root and an issuing certificate whose keys are theirs', async () => {
    const root = new X509Certificate(read('ca', 'root.pem'))
    const issuing = new X509Certificate(read('ca', 'issuing.pem'))
    expect(root.verify(root.publicKey)).toBe(true)
    expect(issuing.verify(root.publicKey)).toBe(true)
    expect([root.ca, issuing.ca]).toEqual([true, true])
    expect(root.checkPrivateKey(createPrivateKey(read('ca', 'root.key.pem')))).toBe(true)
    expect(issuing.checkPrivateKey(createPrivateKey(read('ca', 'issuing.key.pem')))).toBe(true)
    expect(read('ca', 'issuing.pem').endsWith(read('ca', 'root.pem'))).toBe(true)
  })

  test('the deployed Muster loads it', async () => {
    const secrets = { caKey: read('ca', 'issuing.key.pem'), caCert: read('ca', 'issuing.pem'), allowDevelopment: false }
    expect((await loadAuthority(secrets)).ok).toBe(true)
  })

  test('.dev.vars holds the same secrets', () => {
    expect(parseEnv(read('.dev.vars'))).toEqual({
      CA_KEY: read('ca', 'issuing.key.pem'),
      CA_CERT: read('ca', 'issuing.pem'),
    })
  })

  test('says what to do next, and never shows a key', async () => {
    const { code, stdout } = await muster('ca', 'init', '--dir', 'other')
    expect(code).toBe(0)
    expect(stdout).toContain('wrangler secret put CA_KEY < other/issuing.key.pem')
    expect(stdout).not.toContain('PRIVATE')
  })

  test('overwrites nothing', async () => {
    const before = read('ca', 'issuing.key.pem')
    const again = await muster('ca', 'init', '--dir', 'ca')
    expect(again).toEqual({
      code: 1,
      stdout: '',
      stderr: 'muster: ca/root.key.pem is there already: it is not overwritten\n',
    })
    expect(read('ca', 'issuing.key.pem')).toBe(before)
    const vars = await muster('ca', 'init', '--dir', 'third', '--dev-vars')
    expect(vars).toMatchObject({ code: 1, stderr: 'muster: .dev.vars is there already: it is not overwritten\n' })
    expect(existsSync(path('third'))).toBe(false)
  })

  test('leaves no key behind where a later file cannot be written', async () => {
    mkdirSync(path('dangling'))
    symlinkSync('nowhere', path('dangling', 'issuing.pem'))
    const { code, stderr } = await muster('ca', 'init', '--dir', 'dangling')
    expect({ code, stderr }).toEqual({ code: 1, stderr: 'muster: cannot write to dangling: EEXIST\n' })
    expect(readdirSync(path('dangling'))).toEqual(['issuing.pem'])
  })

  test('says where it cannot write', async () => {
    expect(await muster('ca', 'init', '--dir', 'trust.yaml/ca')).toMatchObject({
      code: 1,
      stderr: 'muster: cannot write to trust.yaml/ca: ENOTDIR\n',
    })
  })
})

describe('muster ca show', () => {
  test('describes a pair with its certificates', async () => {
    const { code, stdout } = await muster('ca', 'show', '--dir', 'ca', '--json')
    expect(code).toBe(0)
    const printed = JSON.parse(stdout)
    expect(printed).toMatchObject({ dir: 'ca', pair: true, fault: null })
    const root = new X509Certificate(read('ca', 'root.pem'))
    expect(printed.certificates).toHaveLength(2)
    expect(printed.certificates[1].fingerprint).toBe(root.fingerprint256.replaceAll(':', '').toLowerCase())
    expect((await muster('ca', 'show', '--dir', 'ca')).stdout).toContain('are a pair')
  })

  test('exits 1 where key and certificate do not belong together', async () => {
    expect((await muster('ca', 'init', '--dir', 'mixed')).code).toBe(0)
    copyFileSync(path('ca', 'issuing.key.pem'), path('mixed', 'issuing.key.pem'))
    const { code, stdout } = await muster('ca', 'show', '--dir', 'mixed', '--json')
    expect(code).toBe(1)
    expect(JSON.parse(stdout)).toMatchObject({ pair: false, fault: 'mixed: CA_KEY and CA_CERT are not a pair' })
  })

  test('passes over what OpenSSL writes around a block, as the Worker does', async () => {
    cpSync(path('ca'), path('texted'), { recursive: true })
    writeFileSync(path('texted', 'issuing.pem'), `Certificate:\n    Data: …\n${read('ca', 'issuing.pem')}`)
    const parameters = '-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n'
    writeFileSync(path('texted', 'issuing.key.pem'), parameters + read('ca', 'issuing.key.pem'))
    const { code, stdout } = await muster('ca', 'show', '--dir', 'texted', '--json')
    const plain = JSON.parse((await muster('ca', 'show', '--dir', 'ca', '--json')).stdout)
    expect([code, JSON.parse(stdout)]).toEqual([0, { ...plain, dir: 'texted' }])
  })

  test('says the same as the Worker of a file that holds something else', async () => {
    cpSync(path('ca'), path('keyed'), { recursive: true })
    writeFileSync(path('keyed', 'issuing.pem'), read('ca', 'issuing.pem') + read('ca', 'issuing.key.pem'))
    const { code, stdout } = await muster('ca', 'show', '--dir', 'keyed', '--json')
    const fault = 'keyed: CA_CERT is not a list of PEM certificates: a PEM block that is not a CERTIFICATE'
    expect([code, JSON.parse(stdout)]).toMatchObject([1, { pair: false, fault, certificates: [] }])
  })

  test('names a folder that is not there', async () => {
    expect(await muster('ca', 'show', '--dir', 'none')).toMatchObject({
      code: 1,
      stderr: 'muster: the CA folder none does not exist; name another with --dir\n',
    })
  })

  test('shows the roots that a running Muster hands out', async () => {
    const server = createServer((request, response) => {
      response.writeHead(request.url === '/api/bundle.pem' ? 200 : 404).end(read('ca', 'root.pem'))
    }).listen(0, '127.0.0.1')
    await new Promise((resolve) => server.once('listening', resolve))
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    const { code, stdout } = await muster('ca', 'show', '--url', url, '--json')
    server.close()
    expect(code).toBe(0)
    expect(JSON.parse(stdout)).toMatchObject({
      url,
      certificates: [{ subject: expect.stringContaining('Muster Root') }],
    })
    // Nothing listens there.
    const gone = await muster('ca', 'show', '--url', 'http://127.0.0.1:1')
    expect(gone).toMatchObject({
      code: 1,
      stderr:
        'muster: http://127.0.0.1:1/api/bundle.pem gives no trust bundle: 127.0.0.1:1: connect ECONNREFUSED 127.0.0.1:1\n',
    })
    expect((await muster('ca', 'show', '--url', 'hello')).stderr).toBe(
      'muster: --url "hello" is not a URL, as https://muster.example\n',
    )
  })
})

describe('muster ca issue', () => {
  const issue = (...args: string[]) => muster('ca', 'issue', '--dir', 'ca', ...SHARED, ...args)

  test('writes a provisioned certificate that a control plane accepts, and records it', async () => {
    const made = await issue('--out', 'certs', '--tenant', 'acme', '--ttl', '720h', '--json')
    expect(made).toMatchObject({ code: 0, stderr: '' })
    const issued = JSON.parse(made.stdout)
    expect(readdirSync(path('certs')).sort()).toEqual(['ca.pem', 'cert.pem', 'key.pem'])
    expect(modeOf('certs', 'key.pem')).toBe('600')
    expect(read('certs', 'ca.pem')).toBe(read('ca', 'root.pem'))

    const leaf = new X509Certificate(read('certs', 'cert.pem'))
    expect(leaf.checkPrivateKey(createPrivateKey(read('certs', 'key.pem')))).toBe(true)
    expect(leaf.subject).toBe(`O=acme\nOU=provisioned:\nCN=${issued.enrollmentId}`)
    expect(isUuidv7(issued.enrollmentId)).toBe(true)
    expect(leaf.validToDate.getTime() - leaf.validFromDate.getTime()).toBe((720 * 3600 + 60) * 1000)
    expect(read('certs', 'cert.pem').endsWith(new X509Certificate(read('ca', 'issuing.pem')).toString())).toBe(true)

    const secrets = { caKey: read('ca', 'issuing.key.pem'), caCert: read('ca', 'issuing.pem'), allowDevelopment: false }
    const authority = await loadAuthority(secrets)
    const blocks = parsePem(read('certs', 'cert.pem'), 5)
    const [block] = blocks.ok ? blocks.value : []
    if (!authority.ok || block === undefined) throw new Error('unreadable')
    const presented = await verifyPresented(authority.value, ['rootpilot'], block.bytes)
    expect(presented.ok && presented.value.leaf).toMatchObject({
      mode: 'provisioned',
      tenant: 'acme',
      serial: issued.serial,
    })

    const state = { persistTo: path('state'), trust: path('trust.yaml') }
    const row = await withDatabases(state, ({ all: [db] }) => findEnrollment(db, issued.enrollmentId))
    expect(row).toMatchObject({
      mode: 'provisioned',
      tenant: 'acme',
      serial: issued.serial,
      publicKeyHash: presented.ok && presented.value.leaf.publicKeyHash,
      endedAt: null,
    })

    const unwritable = await issue('--out', '/proc/x', '--tenant', 'acme')
    expect(unwritable).toMatchObject({ code: 1, stderr: 'muster: cannot write to /proc/x: ENOENT\n' })
    expect(
      await withDatabases(state, ({ all: [db] }) =>
        countNamed(db, { kind: 'tenant', value: 'acme' }, toEpochSeconds(systemClock())),
      ),
    ).toBe(1)

    const again = await issue('--out', 'certs', '--tenant', 'acme')
    expect(again).toMatchObject({ code: 1, stderr: 'muster: certs/cert.pem is there already: it is not overwritten\n' })
  })

  test.each([
    ['a tenant that the trust file lacks', ['--tenant', 'globex'], '--tenant "globex" is not in trust.yaml'],
    ['more than 90 days', ['--tenant', 'acme', '--ttl', '2161h'], '--ttl "2161h" must be'],
    ['days', ['--tenant', 'acme', '--ttl', '30d'], '--ttl "30d" must be'],
    ['no time', ['--tenant', 'acme', '--ttl', '0s'], '--ttl "0s" must be'],
    ['another folder', ['--tenant', 'acme', '--dir', 'none'], 'the CA folder none does not exist'],
    ['a mixed folder', ['--tenant', 'acme', '--dir', 'mixed'], 'mixed: CA_KEY and CA_CERT are not a pair'],
  ])('refuses %s in one line, and writes nothing', async (_, args, expected) => {
    const { code, stderr } = await issue('--out', 'refused', ...args)
    expect(code).toBe(1)
    expect(stderr).toContain(expected)
    expect(stderr.trimEnd().split('\n')).toHaveLength(1)
    expect(existsSync(path('refused'))).toBe(false)
  })
})
