// Tests how a runner reads its configuration: the exact text of every message, all mistakes reported at once, and each
// quirk of an env file either read in its one sense or named.

import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import fc from 'fast-check'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { ok } from '../../src/protocol/result.ts'
import { epochMilliseconds } from '../../src/protocol/time.ts'
import { readArguments } from '../../src/runner/environment/arguments.ts'
import { mountMistakes } from '../../src/runner/environment/mounts.ts'
import { pemSource } from '../../src/runner/environment/pem-input.ts'
import { Settings } from '../../src/runner/environment/settings.ts'
import { fileToken } from '../../src/runner/evidence/token.ts'
import { readKey } from '../../src/runner/identity/keys.ts'
import { FakeControlPlane, problem } from '../fakes/control-plane.ts'
import { Harness, kubernetesToken, MINUTE, SECOND, scratchDir } from './harness.ts'

const CASES = fileURLToPath(new URL('../cases/agent/', import.meta.url))
const NO_IDENTITY = 'either provide RUNNER_CERT_PEM+RUNNER_KEY_PEM (provisioned cert) or RUNNER_ENROLL_URL (enrollment)'

let plane: FakeControlPlane
beforeAll(async () => {
  plane = await FakeControlPlane.start()
})
afterAll(() => plane.stop())
beforeEach(() => {
  plane.requests.length = 0
})

/** The mistakes that a boot ends with; none where it got as far as enrolling. */
async function mistakesOf(env: NodeJS.ProcessEnv, flags = {}, certificates?: string): Promise<readonly string[]> {
  const harness = new Harness(plane, env, flags, certificates)
  await harness.settle()
  if (harness.exit === null) await harness.stop()
  else {
    expect(harness.exit.exitCode).toBe(78)
    expect(harness.messages('error')).toEqual(harness.exit.messages)
    return harness.exit.messages
  }
  return []
}

describe('messages, word for word', () => {
  test.each<[string, NodeJS.ProcessEnv]>([
    ['RUNNER_ATTESTATION_MODE=bootstrap-token requires RUNNER_BOOTSTRAP_TOKEN', {}],
    [
      'RUNNER_ATTESTATION_MODE=bootstrap-token requires RUNNER_BOOTSTRAP_TOKEN',
      { RUNNER_ATTESTATION_MODE: 'bootstrap-token', RUNNER_BOOTSTRAP_TOKEN: ' ' },
    ],
    [
      'RUNNER_ATTESTATION_MODE=aws-sts requires AWS_REGION',
      { RUNNER_ATTESTATION_MODE: 'aws-sts', AWS_DEFAULT_REGION: 'us-east-1' },
    ],
    [
      'RUNNER_ATTESTATION_MODE=runner-token requires RUNNER_TOKEN or RUNNER_TOKEN_FILE',
      { RUNNER_ATTESTATION_MODE: 'runner-token' },
    ],
  ])('%s', async (message, env) => {
    expect(await mistakesOf(env)).toEqual([message])
  })

  test(NO_IDENTITY, async () => {
    const env = { RUNNER_ENROLL_URL: '', RUNNER_BOOTSTRAP_TOKEN: 't' }
    expect(await mistakesOf(env)).toEqual([NO_IDENTITY])
  })

  test.each(['https_proxy', 'HTTPS_PROXY', 'all_proxy', 'ALL_PROXY'])(
    'of a proxy in %s that is none, with nothing of its value',
    async (name) => {
      for (const value of ['socks5://user:hush@proxy.test', 'http://user:1/hush@proxy.test', 'http://user:hush@']) {
        expect(await mistakesOf({ RUNNER_BOOTSTRAP_TOKEN: 't', [name]: value })).toEqual([
          `${name} is not the URL of an HTTP proxy, such as http://proxy.example:3128`,
        ])
      }
      expect(await mistakesOf({ RUNNER_BOOTSTRAP_TOKEN: 't', [name]: 'http://user:p%zz@proxy.test:3128' })).toEqual([])
    },
  )

  test('all of them at once, a line each', async () => {
    const env = {
      RUNNER_ENROLL_URL: '',
      RUNNER_ATTESTATION_MODE: 'aws-sts',
      RUNNER_CERT_RENEWAL: 'False',
      RUNNER_TENANT: 'Acme',
      RUNNER_HEALTH_PORT: '30s',
      RUNNER_TOKEN: 'a',
      RUNNER_TOKEN_FILE: '/b',
    }
    const mistakes = await mistakesOf(env, { mounts: ['/certs:/certs'] }, '/certs')
    expect(mistakes).toHaveLength(7)
    for (const part of [
      NO_IDENTITY,
      'RUNNER_ATTESTATION_MODE=aws-sts requires AWS_REGION',
      'RUNNER_CERT_RENEWAL must be one of on, off',
      'RUNNER_TENANT must be a tenant: a-z, 0-9 and -, 1 to 63 characters',
      'RUNNER_HEALTH_PORT must be a port number, 0 to 65535',
      'RUNNER_TOKEN and RUNNER_TOKEN_FILE are both set: give one of them',
      '--mount "/certs" is refused: it is, holds or lies under the certificate directory (/certs)',
    ]) {
      expect(mistakes).toContain(part)
    }
  })

  test.each<[string, string]>([
    ['gke-oidc', 'failed to read projected KSA token at PATH (is the Workload Identity token volume mounted?)'],
    ['eks-oidc', 'failed to read projected token at PATH (is the token volume mounted?)'],
    ['kubernetes', 'failed to read projected token at PATH (is the token volume mounted?)'],
  ])('of a %s token file that is missing or empty, after looking again for ten seconds', async (mode, absent) => {
    const path = join(scratchDir(), 'token')
    const env = {
      RUNNER_ATTESTATION_MODE: mode,
      RUNNER_GKE_TOKEN_PATH: path,
      RUNNER_EKS_TOKEN_PATH: path,
      ...(mode === 'kubernetes' ? { RUNNER_TOKEN_FILE: path } : {}),
    }
    for (const [content, message] of [
      [null, absent.replace('PATH', path)],
      ['\n', `projected token at ${path} is empty`],
    ] as const) {
      if (content !== null) writeFileSync(path, content)
      const harness = new Harness(plane, env)
      await harness.pass(9 * SECOND)
      expect(harness.exit).toBeNull()
      await harness.pass(2 * SECOND)
      expect(harness.exit).toEqual({
        exitCode: 78,
        messages: [`RUNNER_ATTESTATION_MODE=${mode}: ${message}`],
      })
    }
    expect(plane.requests).toEqual([])
  })

  test.each<[string, string]>([
    ['gke-oidc', '/var/run/secrets/tokens/gke-oidc/token'],
    ['eks-oidc', '/var/run/secrets/tokens/eks-oidc/token'],
    ['kubernetes', '/var/run/secrets/muster/runner/token'],
  ])('name the default path of %s', async (mode, path) => {
    const harness = new Harness(plane, { RUNNER_ATTESTATION_MODE: mode })
    await harness.pass(11 * SECOND)
    expect(harness.exit?.messages[0]).toContain(` at ${path} `)
  })

  test('a token file that appears within ten seconds is taken', async () => {
    const path = join(scratchDir(), 'token')
    const harness = new Harness(plane, { RUNNER_TOKEN_FILE: path })
    await harness.pass(5 * SECOND)
    writeFileSync(path, kubernetesToken({ exp: 4e9 }))
    await harness.pass(SECOND)
    expect(harness.messages()).toContain('ready')
    expect(plane.enrolls[0]?.body.attestation.mode).toBe('kubernetes')
    await harness.stop()
  })

  test('a minted token whose file appears late is sent as what it is, and refused as such', async () => {
    const path = join(scratchDir(), 'token')
    writeFileSync(path, '')
    const harness = new Harness(plane, { RUNNER_TOKEN_FILE: path })
    await harness.pass(5 * SECOND)
    writeFileSync(path, 'muster_rt_x')
    plane.respond = () => problem(401, 'attestation_invalid')
    await harness.pass(MINUTE)
    plane.respond = () => undefined
    expect(plane.enrolls.map(({ body }) => body.attestation.mode)).toEqual(Array(3).fill('runner-token'))
    expect(harness.exit?.exitCode).toBe(77)
  })

  test('a file without a mode is asked anew at each use', async () => {
    const path = join(scratchDir(), 'token')
    writeFileSync(path, kubernetesToken({ exp: 4e9 }))
    plane.next.push(() => ({ status: 503, body: '' }))
    const harness = new Harness(plane, { RUNNER_TOKEN_FILE: path })
    await harness.settle()
    writeFileSync(path, 'muster_rt_x')
    await harness.pass(2 * SECOND)
    expect(plane.enrolls.map(({ body }) => body.attestation.mode)).toEqual(['kubernetes', 'runner-token'])
    await harness.stop()
  })
})

describe('the mode', () => {
  test.each<[string, NodeJS.ProcessEnv, string]>([
    ['RUNNER_TOKEN', { RUNNER_TOKEN: 'muster_rt_x' }, 'runner-token'],
    ['COMPASS_RUNNER_TOKEN', { COMPASS_RUNNER_TOKEN: 'muster_rt_x' }, 'runner-token'],
    ['RUNNER_BOOTSTRAP_TOKEN', { RUNNER_BOOTSTRAP_TOKEN: 'muster_bt_x' }, 'bootstrap-token'],
    [
      'an explicit one',
      { RUNNER_ATTESTATION_MODE: 'bootstrap-token', RUNNER_BOOTSTRAP_TOKEN: 'b', RUNNER_TOKEN: 'r' },
      'bootstrap-token',
    ],
  ])('follows from %s', async (_name, env, mode) => {
    expect(await mistakesOf(env)).toEqual([])
    expect(plane.enrolls[0]?.body.attestation.mode).toBe(mode)
  })

  test.each([
    ['a compact JWS', kubernetesToken({ exp: 4e9 }), 'kubernetes'],
    ['anything else', 'muster_rt_x', 'runner-token'],
  ])('of a token file that holds %s', async (_name, token, mode) => {
    const path = join(scratchDir(), 'token')
    writeFileSync(path, `${token}\r\n`)
    for (const [env, flags] of [
      [{ RUNNER_TOKEN_FILE: path }, {}],
      [{ COMPASS_RUNNER_TOKEN_FILE: path }, {}],
      [{ RUNNER_TOKEN_FILE: '/elsewhere' }, { tokenFile: path }],
    ] as const) {
      plane.requests.length = 0
      expect(await mistakesOf(env, flags)).toEqual([])
      expect(plane.enrolls[0]?.body.attestation).toEqual({ mode, token })
    }
  })

  test('mtls-renewal and other words are none', async () => {
    for (const mode of ['mtls-renewal', 'AWS-STS', 'azure']) {
      expect((await mistakesOf({ RUNNER_ATTESTATION_MODE: mode, RUNNER_BOOTSTRAP_TOKEN: 't' }))[0]).toContain(
        'RUNNER_ATTESTATION_MODE must be one of bootstrap-token, runner-token, aws-sts, gke-oidc, eks-oidc, kubernetes',
      )
    }
  })
})

// From the test plan of the Kubernetes design (W3); an attempt stands for an RPC.
describe('the token source', () => {
  /** Read once: a token that is made twice must be the same one. */
  const start = Date.now()
  const later = (minutes: number) => epochMilliseconds(start + minutes * MINUTE)
  const expiring = (minutes: number, id = 1) =>
    kubernetesToken({ jti: id, exp: Math.floor(start / 1000) + minutes * 60 })

  test('Rewriting the file between two RPCs changes the token on the second', async () => {
    const path = join(scratchDir(), 'token')
    writeFileSync(path, expiring(10, 1))
    plane.next.push(() => ({ status: 503, body: '' }))
    const harness = new Harness(plane, { RUNNER_TOKEN_FILE: path })
    await harness.settle()
    writeFileSync(path, expiring(10, 2))
    await harness.pass(2 * SECOND)
    expect(plane.enrolls.map(({ body }) => body.attestation.token)).toEqual([expiring(10, 1), expiring(10, 2)])
    await harness.stop()
  })

  test('A read error returns the cached token while unexpired, and fails after expiry', () => {
    const path = join(scratchDir(), 'token')
    writeFileSync(path, expiring(10))
    const source = fileToken(path)
    expect(source(later(0))).toEqual(ok(expiring(10)))
    rmSync(path)
    expect(source(later(9))).toEqual(ok(expiring(10)))
    expect(source(later(11))).toMatchObject({ error: { kind: 'absent' } })
    writeFileSync(path, '')
    expect(source(later(9))).toEqual(ok(expiring(10)))
    expect(source(later(11))).toMatchObject({ error: { kind: 'empty' } })
  })

  test.each([
    ['RUNNER_TOKEN', 'RUNNER_TOKEN_FILE'],
    ['COMPASS_RUNNER_TOKEN', 'COMPASS_RUNNER_TOKEN_FILE'],
    ['RUNNER_TOKEN', 'COMPASS_RUNNER_TOKEN_FILE'],
    ['RUNNER_TOKEN', 'COMPASS_RUNNER_TOKEN'],
  ])('Setting both token sources fails at start (%s, %s)', async (one, other) => {
    const path = join(scratchDir(), 'token')
    writeFileSync(path, 'muster_rt_x')
    const mistakes = await mistakesOf({ [one]: 'muster_rt_x', [other]: path })
    expect(mistakes).toContain(`${one} and ${other} are both set: give one of them`)
    expect(await mistakesOf({ [one]: 'muster_rt_x' }, { tokenFile: path })).toEqual([
      `${one} and --token-file are both set: give one of them`,
    ])
  })

  test('follows the swap of a link as the kubelet makes it', () => {
    const folder = scratchDir()
    const rotate = (token: string): void => {
      writeFileSync(join(folder, 'new'), `${token}\n`)
      execFileSync(join(CASES, 'rotate-projected-token.sh'), [join(folder, 'volume'), join(folder, 'new')])
    }
    rotate(expiring(10, 1))
    const source = fileToken(join(folder, 'volume', 'token'))
    expect(source(later(0))).toEqual(ok(expiring(10, 1)))
    rotate(expiring(10, 2))
    expect(source(later(0))).toEqual(ok(expiring(10, 2)))
  })

  test('takes no pipe, no folder and nothing larger than a token', () => {
    const folder = scratchDir()
    execFileSync('mkfifo', [join(folder, 'pipe')])
    writeFileSync(join(folder, 'large'), 'x'.repeat(10_000))
    for (const name of ['pipe', 'large', '.']) {
      expect(fileToken(join(folder, name))(later(0))).toMatchObject({ error: { kind: 'absent' } })
    }
  })
})

describe('--mount', () => {
  const folder = scratchDir()
  mkdirSync(join(folder, 'tokens'))
  mkdirSync(join(folder, 'work'))
  symlinkSync(join(folder, 'tokens'), join(folder, 'alias'))
  const guarded = [{ what: 'the token directory', path: join(folder, 'tokens') }]

  test('A --mount over the token directory is refused', async () => {
    const path = join(folder, 'tokens', 'token')
    writeFileSync(path, kubernetesToken({ exp: 4e9 }))
    const env = { RUNNER_TOKEN_FILE: path, RUNNER_IDENTITY_DIR: join(folder, 'identity') }
    const is = 'is refused: it is, holds or lies under'
    for (const mount of [join(folder, 'tokens'), `${folder}:/host`, '/']) {
      const mistakes = await mistakesOf(env, { mounts: [mount] })
      expect(mistakes[0]).toContain(is)
    }
    expect(await mistakesOf(env, { mounts: [join(folder, 'identity', 'sub')] })).toEqual([
      `--mount ${JSON.stringify(join(folder, 'identity', 'sub'))} ${is} the identity directory (${join(folder, 'identity')})`,
    ])
    expect(await mistakesOf(env, { mounts: [join(folder, 'work')] })).toEqual([])
  })

  test.each([
    ['tokens', false],
    ['tokens/', false],
    ['tokens/deeper/than/it', false],
    ['work/../tokens', false],
    ['alias', false],
    ['alias/deeper', false],
    ['.', false],
    ['..', false],
    ['work', true],
    ['tokens-of-another', true],
    ['tokens2/deeper', true],
  ])('%s: allowed is %s', (source, allowed) => {
    expect(mountMistakes([`${folder}/${source}:/job`], guarded).length === 0).toBe(allowed)
  })

  describe('guards the files themselves, wherever a link leads', () => {
    const at = scratchDir()
    for (const name of ['tok/real', 'pki', 'certs', 'plain']) mkdirSync(join(at, name), { recursive: true })
    writeFileSync(join(at, 'tok/real/token'), 'muster_rt_x')
    for (const name of ['cert.pem', 'key.pem', 'ca.pem']) writeFileSync(join(at, 'pki', name), '')
    symlinkSync(join(at, 'tok/real'), join(at, 'link'))
    symlinkSync(join(at, 'tok/real/token'), join(at, 'plain/token'))
    symlinkSync(join(at, 'pki/key.pem'), join(at, 'certs/key.pem'))

    test.each<[string, string, NodeJS.ProcessEnv]>([
      ['tok', 'link/token', { RUNNER_TOKEN_FILE: join(at, 'link/token') }],
      ['tok', 'plain/token', { RUNNER_TOKEN_FILE: join(at, 'plain/token') }],
      ['plain', 'plain/token', { RUNNER_TOKEN_FILE: join(at, 'plain/token') }],
      ['tok', 'a relative path', { RUNNER_TOKEN_FILE: relative(process.cwd(), join(at, 'plain/token')) }],
      ['tok', 'another mode', { RUNNER_ATTESTATION_MODE: 'gke-oidc', RUNNER_GKE_TOKEN_PATH: join(at, 'plain/token') }],
      [
        'tok',
        'AWS',
        {
          RUNNER_ATTESTATION_MODE: 'aws-sts',
          AWS_REGION: 'us-east-1',
          AWS_WEB_IDENTITY_TOKEN_FILE: join(at, 'plain/token'),
        },
      ],
      ['pki', 'a key in quotes', { RUNNER_KEY_PEM: `"${join(at, 'pki/key.pem')}"` }],
      ['pki', 'a relative key', { RUNNER_KEY_PEM: relative(process.cwd(), join(at, 'pki/key.pem')) }],
      ['pki', 'a linked key', { RUNNER_KEY_PEM: join(at, 'certs/key.pem') }],
      ['pki', 'a linked key by default', {}],
      ['pki', 'the CA', { RUNNER_CA_PEM: join(at, 'pki/ca.pem') }],
    ])('%s, of %s', async (mount, name, env) => {
      const certificates = name.endsWith('by default') ? join(at, 'certs') : undefined
      const harness = new Harness(
        plane,
        { RUNNER_BOOTSTRAP_TOKEN: 't', ...env },
        { mounts: [join(at, mount)] },
        certificates,
      )
      await harness.settle()
      expect(harness.exit?.messages.join()).toContain(`--mount ${JSON.stringify(join(at, mount))} is refused`)
    })

    test('and not what lies beside a CA', async () => {
      const mistakes = await mistakesOf(
        { RUNNER_BOOTSTRAP_TOKEN: 't', RUNNER_CA_PEM: join(at, 'pki/ca.pem') },
        { mounts: [join(at, 'pki/cert.pem')] },
      )
      expect(mistakes.join()).not.toContain('--mount')
    })
  })

  test('guards a token that is reached through a link', () => {
    const through = [{ what: 'the token directory', path: join(folder, 'alias') }]
    expect(mountMistakes([join(folder, 'tokens')], through)).toHaveLength(1)
  })

  test('without a host path is a mistake', () => {
    expect(mountMistakes([':/job', ''], guarded)).toHaveLength(2)
  })
})

describe('accidents of env files', () => {
  interface EnvCase {
    readonly file: string
    readonly expect: string
  }
  const { cases } = JSON.parse(readFileSync(join(CASES, 'env', 'index.json'), 'utf8')) as { cases: EnvCase[] }
  /** As `docker --env-file` reads it: a line, a variable, its value as it stands. */
  const envOf = (file: string): Record<string, string> =>
    Object.fromEntries(
      readFileSync(join(CASES, 'env', file), 'utf8')
        .split('\n')
        .filter((line) => line !== '')
        .map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]),
    )

  const pems = cases.filter(({ file }) => file.startsWith('pem-'))
  test.each(pems)('$file: $expect', ({ file, expect: expected }) => {
    const value = envOf(file).RUNNER_KEY_PEM ?? ''
    const reading = pemSource('RUNNER_KEY_PEM', value)()
    if (reading.ok) {
      expect(expected).toContain('accept')
      expect(readKey(reading.value)).not.toBeNull()
    } else {
      expect(expected).toContain('refuse')
      expect(reading.error).toContain('RUNNER_KEY_PEM')
      expect(reading.error).not.toMatch(/MIGH|LS0t/)
    }
  })
  test('at least the literal line ends are read', () => {
    expect(pemSource('X', envOf('pem-literal-backslash-n.env').RUNNER_KEY_PEM ?? '')()).toHaveProperty('ok', true)
  })

  const others = cases.filter(({ file }) => !file.startsWith('pem-') && !file.startsWith('token-'))
  test.each(others)('$file: $expect', async ({ file, expect: expected }) => {
    const env = { RUNNER_BOOTSTRAP_TOKEN: 't', ...envOf(file) }
    // The tenant of a case is not the one that is enrolled into: only the mistakes of `config` count here.
    const mistakes = (await mistakesOf(env)).filter((message) => !message.includes('refusing to start'))
    if (mistakes.length === 0) expect(expected).toMatch(/accept|as-unset/)
    else {
      expect(expected).toContain('refuse')
      const name = Object.keys(envOf(file))[0] as string
      expect(mistakes[0]).toContain(name)
      const value = Object.values(envOf(file))[0] as string
      expect(mistakes[0]).not.toContain(value.replaceAll('"', ''))
    }
  })

  test.each<[string, NodeJS.ProcessEnv]>([
    ['a mode that is none', { RUNNER_ATTESTATION_MODE: 'azure' }],
    ['a bootstrap token in quotes', { RUNNER_BOOTSTRAP_TOKEN: '"t"' }],
    ['a cut token', { RUNNER_TOKEN: 'a b' }],
    ['a quoted token file', { RUNNER_ATTESTATION_MODE: 'runner-token', RUNNER_TOKEN_FILE: "'/a'" }],
    ['a region that is none', { RUNNER_ATTESTATION_MODE: 'aws-sts', AWS_REGION: 'US EAST' }],
  ])('%s is one mistake, not called missing too', async (_name, env) => {
    expect(await mistakesOf(env)).toHaveLength(1)
  })

  test('an empty argument is named', async () => {
    expect(await mistakesOf({ RUNNER_BOOTSTRAP_TOKEN: 't' }, { tokenFile: '', runnerId: ' ' })).toEqual([
      '--token-file is empty',
      '--runner-id is empty',
    ])
  })

  test('every mistake of the arguments is reported at once, and no value quoted', () => {
    const args = ['--bogus', '--also=secret', 'muster_rt_secret', '--runner-id', 'a', '--mount', '/a', '--runner-id=b']
    expect(readArguments([...args, '--mount=/b', '--json=secret', '-x', '--token-file'])).toEqual({
      mounts: ['/a', '/b'],
      runnerId: 'b',
      mistakes: [
        "Unknown option '--bogus'",
        "Unknown option '--also'",
        'Argument 3 belongs to no option',
        "Option '--json' takes no value",
        "Unknown option '-x'",
        "Option '--token-file' has no value",
        "Option '--runner-id' is given more than once",
      ],
    })
    expect(readArguments(['--token-file', '--mount', '/a'])).toEqual({
      mounts: ['/a'],
      mistakes: ["Option '--token-file' has no value"],
    })
    expect(readArguments(['--token-file=t', '--runner-id', 'r', '--persist-to', 'p'])).toEqual({
      tokenFile: 't',
      runnerId: 'r',
    })
    expect(readArguments(['--bogus', '-h'])).toBe('help')
  })

  test('a token with white space within is named, not quoted', async () => {
    const mistakes = await mistakesOf({ RUNNER_BOOTSTRAP_TOKEN: 'muster_bt_a b' })
    expect(mistakes[0]).toBe('RUNNER_BOOTSTRAP_TOKEN holds white space within the token: it was cut or wrapped')
  })

  test('no value of any variable is quoted in a mistake', () => {
    const secret = fc.string({ minLength: 6, maxLength: 40, unit: 'grapheme' }).filter((text) => text.trim().length > 5)
    const names = ['RUNNER_TENANT', 'RUNNER_CERT_RENEWAL', 'RUNNER_HEALTH_PORT', 'RUNNER_ENROLL_URL', 'AWS_REGION']
    const seed = Date.now() % 2 ** 31
    console.info(`seed ${seed}`)
    fc.assert(
      fc.property(fc.constantFrom(...names), secret, (name, value) => {
        const settings = new Settings({ [name]: value })
        settings.choice(name, ['on', 'off'])
        settings.port(name)
        settings.token(name)
        settings.origin(name, '/api/enroll', 'https')
        settings.word(name, 3, () => false, 'is wrong')
        for (const mistake of settings.mistakes) expect(mistake).not.toContain(value.trim())
      }),
      { seed },
    )
  })
})

describe('URLs', () => {
  test.each([
    ['https://muster.example', 'https://muster.example/'],
    ['https://muster.example/api/enroll', 'https://muster.example/'],
    ['https://muster.example:8443/', 'https://muster.example:8443/'],
    ['http://127.0.0.1:8787', 'http://127.0.0.1:8787/'],
    ['http://localhost:8787', 'http://localhost:8787/'],
    ['http://[::1]:8787', 'http://[::1]:8787/'],
    ['HTTPS://Muster.Example', 'https://muster.example/'],
  ])('%s is read', (value, origin) => {
    const settings = new Settings({ RUNNER_ENROLL_URL: value })
    expect(settings.origin('RUNNER_ENROLL_URL', '/api/enroll', 'https')?.href).toBe(origin)
    expect(settings.mistakes).toEqual([])
  })

  test.each([
    'http://muster.example',
    'http://localhost.example',
    'http://127.0.0.1.example',
    'http://0.0.0.0:8787',
    'http://10.0.0.1',
    'ftp://muster.example',
    'https://',
    'https://muster.example/?a=b',
    'https://muster.example/#a',
    'https://muster.example/other/api/enroll',
    'muster.example',
    'javascript:alert(1)',
  ])('%s is a mistake', (value) => {
    const settings = new Settings({ RUNNER_ENROLL_URL: value })
    expect(settings.origin('RUNNER_ENROLL_URL', '/api/enroll', 'https')).toBeNull()
    expect(settings.mistakes).toHaveLength(1)
    expect(settings.mistakes[0]).toMatch(/^RUNNER_ENROLL_URL must /)
  })

  test.each(['wss://muster.example', 'https://muster.example/api/tunnel', 'ws://127.0.0.1:8787'])(
    '%s is a tunnel',
    (value) => {
      const settings = new Settings({ RUNNER_TUNNEL_URL: value })
      expect(settings.origin('RUNNER_TUNNEL_URL', '/api/tunnel', 'wss')).not.toBeNull()
    },
  )
})
