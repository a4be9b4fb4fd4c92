// Tests how a runner reads its configuration: the exact text of every message, all mistakes reported at once, and each
// quirk of an env file either read in its one sense or named.

import { execFileSync } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import fc from 'fast-check'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { ok } from '../../src/protocol/result.ts'
import { epochMilliseconds } from '../../src/protocol/time.ts'
import { readArguments } from '../../src/runner/environment/arguments.ts'
import { mountMistakes } from '../../src/runner/environment/mounts.ts'
import { pemReader } from '../../src/runner/environment/pem-input.ts'
import { readSecrets } from '../../src/runner/environment/secrets.ts'
import { Settings } from '../../src/runner/environment/settings.ts'
import { fileToken } from '../../src/runner/evidence/token.ts'
import { readKey } from '../../src/runner/identity/keys.ts'
import { openFolder } from '../../src/runner/identity/private-file.ts'
import { FakeControlPlane, problem } from '../fakes/control-plane.ts'
import { Harness, kubernetesToken, MINUTE, newKeyPem, SECOND, scratchDir } from './harness.ts'

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

const noLog = () => {}

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
    const env = { RUNNER_ENROLL_URL: '', RUNNER_BOOTSTRAP_TOKEN: 'muster_bt_t' }
    expect(await mistakesOf(env)).toEqual([NO_IDENTITY])
  })

  test.each(['https_proxy', 'HTTPS_PROXY', 'all_proxy', 'ALL_PROXY'])(
    'of a proxy in %s that is none, with nothing of its value',
    async (name) => {
      for (const value of ['socks5://user:hush@proxy.test', 'http://user:1/hush@proxy.test', 'http://user:hush@']) {
        expect(await mistakesOf({ RUNNER_BOOTSTRAP_TOKEN: 'muster_bt_t', [name]: value })).toEqual([
          `${name} is not the URL of an HTTP proxy, such as http://proxy.example:3128`,
        ])
      }
      expect(
        await mistakesOf({ RUNNER_BOOTSTRAP_TOKEN: 'muster_bt_t', [name]: 'http://user:p%zz@proxy.test:3128' }),
      ).toEqual([])
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
    expect(mistakes).toHaveLength(6)
    for (const part of [
      NO_IDENTITY,
      'RUNNER_ATTESTATION_MODE=aws-sts requires AWS_REGION',
      'RUNNER_CERT_RENEWAL must be one of on, off',
      'RUNNER_TENANT must be a tenant: a-z, 0-9 and -, 1 to 63 characters',
      'RUNNER_HEALTH_PORT must be a port number, 0 to 65535',
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
    expect(harness.states).toContain('ready')
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
      {
        RUNNER_ATTESTATION_MODE: 'bootstrap-token',
        RUNNER_BOOTSTRAP_TOKEN: 'muster_bt_b',
        RUNNER_TOKEN: 'another product’s',
      },
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

  const JWS = kubernetesToken({ exp: 4e9 })
  /** What a token is tells itself. */
  const TOKENS: [string, string][] = [
    ['bootstrap-token', 'muster_bt_x'],
    ['runner-token', 'muster_rt_x'],
    ['kubernetes', JWS],
  ]

  test.each(['RUNNER_BOOTSTRAP_TOKEN', 'RUNNER_TOKEN', 'COMPASS_RUNNER_TOKEN'])(
    'follows from the token in %s, not from the name of the variable',
    async (name) => {
      for (const [mode, token] of TOKENS) {
        plane.requests.length = 0
        expect(await mistakesOf({ [name]: ` ${token}\n` })).toEqual([])
        expect(plane.enrolls[0]?.body.attestation).toEqual({ mode, token })
      }
    },
  )

  test.each<[string, NodeJS.ProcessEnv]>([
    ['RUNNER_BOOTSTRAP_TOKEN_FILE', {}],
    ['RUNNER_BOOTSTRAP_TOKEN_FILE', { RUNNER_ATTESTATION_MODE: 'bootstrap-token' }],
    ['RUNNER_TOKEN_FILE', {}],
    ['RUNNER_TOKEN_FILE', { RUNNER_ATTESTATION_MODE: 'runner-token' }],
    ['RUNNER_TOKEN_FILE', { RUNNER_ATTESTATION_MODE: 'kubernetes' }],
    ['RUNNER_GKE_TOKEN_PATH', { RUNNER_ATTESTATION_MODE: 'gke-oidc' }],
  ])('follows from the token in the file of %s, with %j too', async (name, env) => {
    const path = join(scratchDir(), 'token')
    for (const [mode, token] of TOKENS) {
      writeFileSync(path, token)
      plane.requests.length = 0
      expect(await mistakesOf({ ...env, [name]: path })).toEqual([])
      const named = mode === 'kubernetes' && name === 'RUNNER_GKE_TOKEN_PATH' ? 'gke-oidc' : mode
      expect(plane.enrolls[0]?.body.attestation).toEqual({ mode: named, token })
    }
  })

  /** Of other products: opaque, two dots (GitLab's routable tokens, Discord's), three parts that are no JSON. */
  const FOREIGN = [
    'AABBCCDDEEFF',
    'glrt-t1_abc.01.0w1x2y3z4',
    'MTk4NjIyNDgzNDcxOTI1MjQ4.Cl2FMQ.ZnCjm1XVW7vRze4b7Cq4se7kKWs',
    'a.b.c',
    `${JWS}.more`,
    JWS.slice(0, JWS.lastIndexOf('.') + 1),
    'muster_bt_…',
    'muster_bt_',
    'muster_xt_x',
    'MUSTER_BT_x',
  ]

  test.each(['RUNNER_BOOTSTRAP_TOKEN', 'RUNNER_TOKEN', 'COMPASS_RUNNER_TOKEN'])(
    'other text in %s is sent nowhere: 78, and the variable is named',
    async (name) => {
      for (const text of FOREIGN) {
        const mistakes = await mistakesOf({ [name]: text })
        expect(mistakes).toEqual([
          `${name} holds neither a token of Muster (muster_bt_…, muster_rt_…) nor a compact JWS: it is not sent`,
        ])
      }
      expect(plane.requests).toEqual([])
    },
  )

  test.each<[string, NodeJS.ProcessEnv, string]>([
    ['RUNNER_TOKEN_FILE', {}, 'RUNNER_TOKEN_FILE'],
    ['RUNNER_BOOTSTRAP_TOKEN_FILE', {}, 'RUNNER_BOOTSTRAP_TOKEN_FILE'],
    ['RUNNER_EKS_TOKEN_PATH', { RUNNER_ATTESTATION_MODE: 'eks-oidc' }, 'RUNNER_EKS_TOKEN_PATH'],
  ])('other text in the file of %s is sent nowhere', async (name, env, named) => {
    const path = join(scratchDir(), 'token')
    writeFileSync(path, 'AABBCCDDEEFF')
    const harness = new Harness(plane, { ...env, [name]: path })
    await harness.pass(11 * SECOND)
    expect(harness.exit?.exitCode).toBe(78)
    expect(harness.exit?.messages[0]).toMatch(new RegExp(`^${named}: the file ${path} holds neither a token of Muster`))
    expect(harness.text.join('')).not.toContain('AABBCC')
    expect(plane.requests).toEqual([])
  })

  test.each<[string[], NodeJS.ProcessEnv]>([
    [['RUNNER_BOOTSTRAP_TOKEN', 'RUNNER_TOKEN'], { RUNNER_BOOTSTRAP_TOKEN: 'muster_bt_x', RUNNER_TOKEN: 'AABBCC' }],
    [
      ['RUNNER_BOOTSTRAP_TOKEN', 'RUNNER_TOKEN_FILE'],
      { RUNNER_BOOTSTRAP_TOKEN: 'muster_bt_x', RUNNER_TOKEN_FILE: '/a' },
    ],
    [
      ['RUNNER_BOOTSTRAP_TOKEN', 'RUNNER_BOOTSTRAP_TOKEN_FILE'],
      { RUNNER_BOOTSTRAP_TOKEN: 'muster_bt_x', RUNNER_BOOTSTRAP_TOKEN_FILE: '/a' },
    ],
    [
      ['RUNNER_BOOTSTRAP_TOKEN', 'RUNNER_GKE_TOKEN_PATH'],
      { RUNNER_BOOTSTRAP_TOKEN: 'muster_bt_x', RUNNER_GKE_TOKEN_PATH: '/a' },
    ],
    [['RUNNER_TOKEN', 'COMPASS_RUNNER_TOKEN'], { RUNNER_TOKEN: 'muster_rt_x', COMPASS_RUNNER_TOKEN: 'muster_rt_x' }],
  ])('of %j together is a mistake that names both', async (names, env) => {
    expect(await mistakesOf(env)).toEqual([`${names.join(' and ')} are both set: give one of them`])
    expect(plane.requests).toEqual([])
  })

  test('that is named reads its own variables alone', async () => {
    const foreign = { RUNNER_TOKEN: 'AABBCC', RUNNER_TOKEN_FILE: '~/x', RUNNER_GKE_TOKEN_PATH: '$HOME' }
    const named = { RUNNER_ATTESTATION_MODE: 'bootstrap-token', RUNNER_BOOTSTRAP_TOKEN: 'muster_bt_x' }
    expect(await mistakesOf({ ...foreign, ...named })).toEqual([])
    expect(plane.enrolls[0]?.body.attestation).toEqual({ mode: 'bootstrap-token', token: 'muster_bt_x' })
  })

  test('mtls-renewal and other words are none', async () => {
    for (const mode of ['mtls-renewal', 'AWS-STS', 'azure']) {
      expect((await mistakesOf({ RUNNER_ATTESTATION_MODE: mode, RUNNER_BOOTSTRAP_TOKEN: 'muster_bt_t' }))[0]).toContain(
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
    const source = fileToken(path, noLog)
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

  test.each<[string, (path: string) => void, string]>([
    ['unreadable', (path) => rmSync(path), 'cannot be read'],
    ['empty', (path) => writeFileSync(path, '\n'), 'is empty'],
    ['another text', (path) => writeFileSync(path, 'AABBCC'), 'holds no token'],
  ])('a file that became %s gives the last token, and one line says so', async (_name, spoil, says) => {
    const path = join(scratchDir(), 'token')
    writeFileSync(path, 'muster_rt_x')
    plane.next.push(...Array(3).fill(() => ({ status: 503, body: '' })))
    const harness = new Harness(plane, { RUNNER_TOKEN_FILE: path })
    await harness.settle()
    spoil(path)
    await harness.pass(20 * SECOND)
    expect(plane.enrolls.map(({ body }) => body.attestation.token)).toEqual(Array(4).fill('muster_rt_x'))
    const line = `the token file ${path} ${says}: the last token serves`
    expect(harness.messages('warn').filter((message) => message === line)).toHaveLength(1)
    expect(harness.text.join('')).not.toContain('AABBCC')
    await harness.stop()
  })

  test('follows the swap of a link as the kubelet makes it', () => {
    const folder = scratchDir()
    const rotate = (token: string): void => {
      writeFileSync(join(folder, 'new'), `${token}\n`)
      execFileSync(join(CASES, 'rotate-projected-token.sh'), [join(folder, 'volume'), join(folder, 'new')])
    }
    rotate(expiring(10, 1))
    const source = fileToken(join(folder, 'volume', 'token'), noLog)
    expect(source(later(0))).toEqual(ok(expiring(10, 1)))
    rotate(expiring(10, 2))
    expect(source(later(0))).toEqual(ok(expiring(10, 2)))
  })

  test('takes no pipe, no folder and nothing larger than a token', () => {
    const folder = scratchDir()
    execFileSync('mkfifo', [join(folder, 'pipe')])
    writeFileSync(join(folder, 'large'), 'x'.repeat(10_000))
    for (const name of ['pipe', 'large', '.']) {
      expect(fileToken(join(folder, name), noLog)(later(0))).toMatchObject({ error: { kind: 'absent' } })
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
        'RUNNER_TOKEN_FILE' in env ? env : { RUNNER_BOOTSTRAP_TOKEN: 'muster_bt_t', ...env },
        { mounts: [join(at, mount)] },
        certificates,
      )
      await harness.settle()
      expect(harness.exit?.messages.join()).toContain(`--mount ${JSON.stringify(join(at, mount))} is refused`)
    })

    test('and not what lies beside a CA', async () => {
      const mistakes = await mistakesOf(
        { RUNNER_BOOTSTRAP_TOKEN: 'muster_bt_t', RUNNER_CA_PEM: join(at, 'pki/ca.pem') },
        { mounts: [join(at, 'pki/cert.pem')] },
      )
      expect(mistakes.join()).not.toContain('--mount')
    })
  })

  test('guards a token that is reached through a link', () => {
    const through = [{ what: 'the token directory', path: join(folder, 'alias') }]
    expect(mountMistakes([join(folder, 'tokens')], through)).toHaveLength(1)
  })

  test.each([
    ...['', ':/job', 'work', 'work:/job', '../work', '.', '..', '~/work', '$HOME/work', '"/work"', "'/work'", ' /work'],
    ...['type=bind,source=/work,target=/job', 'type=volume,src=v,dst=/job', 'source=/work', 'src=/work,dst=/job'],
    ...['volume:/job', 'C:\\work:/job', 'C:/work:/job', '\\\\host\\work', 'file:///work'],
    ...['/work:job', '/work:', '/work::ro', '/work:/job:', '/work:/job:ro:z', '/work:ro', '/work\0:/job'],
  ])('what cannot be read as SRC[:DST[:OPTIONS]] is refused: %j', (mount) => {
    expect(mountMistakes([mount], [])).toEqual([
      `--mount ${JSON.stringify(mount)} is not SRC[:DST[:OPTIONS]] with an SRC that begins with / or ./`,
    ])
  })

  test.each([
    '/work',
    './work',
    './',
    '/work:/job',
    '/work:/job:ro',
    '/work:/job:ro,z',
    '//work',
    '/w o,r=k',
    '/a/../b',
  ])('what can is read: %j', (mount) => {
    expect(mountMistakes([mount], [])).toEqual([])
  })

  describe('guards every file that a source of evidence reads', () => {
    const at = scratchDir()
    const home = join(at, 'home')
    for (const name of ['home/.aws/sso/cache', 'aws', 'pod', 'irsa', 'web', 'anywhere', 'secrets', 'work', 'other']) {
      mkdirSync(join(at, name), { recursive: true })
    }
    mkdirSync(join(at, 'data/one'), { recursive: true })
    writeFileSync(
      join(at, 'aws/config'),
      [
        '[default]',
        'region = us-east-1',
        '[profile far]',
        `web_identity_token_file = ${join(at, 'web/token')} # a comment`,
        '[profile anywhere]',
        `credential_process="/opt/aws/helper" credential-process --private-key ${join(at, 'anywhere/key.pem')}`,
        '[profile spaced]',
        `credential_process = sh -c 'cat ~/of-shell/keys' "${join(at, 'a b/key')}" '--in=${join(at, 'c d/key')}'`,
      ].join('\r\n'),
    )
    // As the kubelet projects a token.
    writeFileSync(join(at, 'data/one/token'), 'a.b.c')
    symlinkSync(join(at, 'data/one'), join(at, 'irsa/..data'))
    symlinkSync('..data/token', join(at, 'irsa/token'))
    symlinkSync(join(at, 'not-yet/token'), join(at, 'pod/dangling'))
    symlinkSync(join(at, 'work'), join(at, 'other/link'))
    symlinkSync('loop', join(at, 'other/loop'))
    const env = {
      ...{ RUNNER_ATTESTATION_MODE: 'aws-sts', AWS_REGION: 'us-east-1', HOME: home },
      ...{ RUNNER_TENANT: 'acme', RUNNER_SECRETS_DIR: join(at, 'secrets') },
      AWS_CONFIG_FILE: join(at, 'aws/config'),
      AWS_SHARED_CREDENTIALS_FILE: join(at, 'aws/credentials'),
      AWS_WEB_IDENTITY_TOKEN_FILE: join(at, 'irsa/token'),
      AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE: join(at, 'pod/token'),
    }
    const refusals = async (mount: string, more: NodeJS.ProcessEnv = {}): Promise<readonly string[]> => {
      mkdirSync(join(at, 'secrets/acme'), { recursive: true })
      return mistakesOf({ ...env, ...more }, { mounts: [mount] })
    }

    test.each([
      ...['home', 'home/.aws', 'home/.aws/sso/cache', 'home/.aws/sso/cache/x.json', 'home/.aws/config'],
      ...[
        'aws',
        'aws/config',
        'aws/credentials',
        'irsa',
        'irsa/token',
        'irsa/..data',
        'data',
        'data/one',
        'data/one/token',
      ],
      ...['pod', 'pod/token', 'web', 'web/token', 'anywhere', 'anywhere/key.pem', 'secrets', 'secrets/acme/x'],
      ...['home/of-shell', 'a b', 'a b/key', 'c d'],
      ...['other/../pod', 'other/link/../pod', 'work//..//pod', 'pod/', './pod', 'other/absent/../../pod'],
    ])('%s', async (mount) => {
      const [mistake = '', ...others] = await refusals(`${at}/${mount}:/job`)
      expect(mistake).toContain('is refused: it is, holds or lies under ')
      expect(others).toEqual([])
    })

    test.each([
      '/opt/aws/helper',
      '/opt/aws',
      '/',
      '/proc',
      '/proc/self/environ',
      '/proc/self/root',
      '/proc/1/root/etc',
      '/proc/4194304/cwd',
      '/dev/fd',
      '/.',
      '//',
    ])('and %s', async (mount) => {
      expect((await refusals(mount)).join()).toContain('is refused: it is, holds or lies under ')
    })

    test.each([
      'work',
      'other',
      'other/link',
      'other/loop',
      'aws/beside',
      'pod/beside',
      'secrets-of-another',
      'home/work',
    ])('and not %s', async (mount) => {
      expect(await refusals(`${at}/${mount}`)).toEqual([])
    })

    test('which a link will lead to, though nothing is there yet', async () => {
      const more = { AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE: join(at, 'pod/dangling') }
      expect((await refusals(join(at, 'not-yet'), more)).join()).toContain('is refused')
    })

    test('whose path begins with "~/", as the SDK reads it', async () => {
      mkdirSync(join(home, 'keys'), { recursive: true })
      const more = { AWS_SHARED_CREDENTIALS_FILE: '~/keys/aws' }
      expect((await refusals(join(home, 'keys'), more)).join()).toContain('is refused')
    })

    test('by a path from the working directory, too', async () => {
      const mount = `./${relative(process.cwd(), join(at, 'pod'))}`
      expect((await refusals(mount)).join()).toContain('is refused')
    })

    test('that a variable names for another mode', async () => {
      const other = {
        RUNNER_ATTESTATION_MODE: 'bootstrap-token',
        RUNNER_BOOTSTRAP_TOKEN: 'muster_bt_x',
        AWS_REGION: '',
      }
      const mounts = [join(at, 'pod'), join(at, 'aws/credentials'), join(at, 'web'), join(at, 'home')]
      const mistakes = await mistakesOf({ ...env, ...other, RUNNER_EKS_TOKEN_PATH: join(at, 'web/eks') }, { mounts })
      expect(mistakes).toEqual([
        `--mount ${JSON.stringify(mounts[0])} is refused: it is, holds or lies under the file of AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE (${at}/pod/token)`,
        `--mount ${JSON.stringify(mounts[1])} is refused: it is, holds or lies under the file of AWS_SHARED_CREDENTIALS_FILE (${at}/aws/credentials)`,
        `--mount ${JSON.stringify(mounts[2])} is refused: it is, holds or lies under the file of RUNNER_EKS_TOKEN_PATH (${at}/web/eks)`,
      ])
    })
  })
})

describe('paths', () => {
  const enrolls = { RUNNER_BOOTSTRAP_TOKEN: 'muster_bt_t' }

  test.each(['RUNNER_IDENTITY_DIR', 'RUNNER_SECRETS_DIR'])('%s is absolute', async (name) => {
    for (const path of ['x', './x', '../x', '.']) {
      expect(await mistakesOf({ ...enrolls, RUNNER_TENANT: 'acme', [name]: path })).toEqual([
        `${name} must be an absolute path`,
      ])
    }
  })

  test.each<[string, NodeJS.ProcessEnv]>([
    ['RUNNER_IDENTITY_DIR', enrolls],
    ['RUNNER_SECRETS_DIR', { ...enrolls, RUNNER_TENANT: 'acme' }],
    ['RUNNER_TOKEN_FILE', {}],
    ['COMPASS_RUNNER_TOKEN_FILE', {}],
    ['RUNNER_BOOTSTRAP_TOKEN_FILE', {}],
    ['RUNNER_GKE_TOKEN_PATH', { RUNNER_ATTESTATION_MODE: 'gke-oidc' }],
    ['RUNNER_EKS_TOKEN_PATH', { RUNNER_ATTESTATION_MODE: 'eks-oidc' }],
    ['AWS_WEB_IDENTITY_TOKEN_FILE', { RUNNER_ATTESTATION_MODE: 'aws-sts', AWS_REGION: 'us-east-1' }],
    ['AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE', { RUNNER_ATTESTATION_MODE: 'aws-sts', AWS_REGION: 'us-east-1' }],
    ['RUNNER_CA_PEM', enrolls],
    ['RUNNER_CERT_PEM', { RUNNER_KEY_PEM: newKeyPem() }],
    ['RUNNER_KEY_PEM', { RUNNER_CERT_PEM: newKeyPem() }],
  ])('a "~" at the beginning of %s or a "$" in it is a mistake: nothing expanded it', async (name, env) => {
    const here = scratchDir()
    const before = readdirSync('.')
    for (const path of ['~/x', '~', '~user/x']) {
      expect(await mistakesOf({ ...env, [name]: path })).toEqual([
        `${name} begins with "~", which only a shell expands: write the whole path`,
      ])
    }
    for (const path of ['$HOME/x', `\${HOME}/x`, `${here}/$USER`]) {
      expect(await mistakesOf({ ...env, [name]: path })).toEqual([
        `${name} holds a "$", which nothing expanded: write the whole path`,
      ])
    }
    expect(readdirSync('.')).toEqual(before)
  })

  test('a "~" within a path is a part of it', async () => {
    expect(await mistakesOf({ ...enrolls, RUNNER_IDENTITY_DIR: join(scratchDir(), 'a~b~') })).toEqual([])
  })

  test('of --token-file, as an option of the library too', async () => {
    expect(await mistakesOf({}, { tokenFile: '~/token' })).toContain(
      '--token-file begins with "~", which only a shell expands: write the whole path',
    )
  })

  test('of --mount: what nothing expanded is another folder to whoever mounts it', async () => {
    expect(await mistakesOf(enrolls, { mounts: ['/srv/$JOB:/job'] })).toEqual([
      '--mount holds a "$", which nothing expanded: write the whole path',
    ])
  })

  test.each<[string, NodeJS.ProcessEnv]>([
    ['RUNNER_TOKEN_FILE', {}],
    ['RUNNER_BOOTSTRAP_TOKEN_FILE', { RUNNER_ATTESTATION_MODE: 'bootstrap-token' }],
    ['RUNNER_GKE_TOKEN_PATH', { RUNNER_ATTESTATION_MODE: 'gke-oidc' }],
    ['--token-file', {}],
  ])('a token in the place of a path in %s is a mistake that quotes nothing', async (name, env) => {
    for (const token of ['muster_bt_S3cret', 'muster_rt_S3cret', kubernetesToken({ iss: 'S3cret' })]) {
      const given = name === '--token-file' ? { tokenFile: token } : {}
      const mistakes = await mistakesOf({ ...env, ...(name !== '--token-file' && { [name]: token }) }, given)
      expect(mistakes).toContain(`${name} holds a token: write the path of the file that it is in`)
      expect(mistakes.join()).not.toContain(token)
    }
  })

  test('RUNNER_IDENTITY_DIR is not under /proc, /sys or /dev, wherever a link leads', async () => {
    const folder = scratchDir()
    symlinkSync('/proc', join(folder, 'link'))
    symlinkSync('/sys/nowhere', join(folder, 'dangling'))
    symlinkSync('dangling/deeper', join(folder, 'twice'))
    for (const [path, kernel] of [
      ['/proc', '/proc'],
      ['/proc/x', '/proc'],
      ['/tmp/../proc/self/x', '/proc'],
      ['/sys/x/y', '/sys'],
      ['/dev/shm/x', '/dev'],
      ['//proc//x', '/proc'],
      [join(folder, 'link', 'x'), '/proc'],
      [join(folder, 'dangling'), '/sys'],
      [join(folder, 'twice', 'x'), '/sys'],
    ] as const) {
      expect(await mistakesOf({ ...enrolls, RUNNER_IDENTITY_DIR: path })).toEqual([
        `RUNNER_IDENTITY_DIR is under ${kernel}, where no file lasts: name another folder`,
      ])
    }
    expect(plane.requests).toEqual([])
  })

  test('a folder that can never be made ends in its error', () => {
    expect(() => openFolder('/proc/x/y')).toThrow('ENOENT')
  })

  test('a link that leads to itself is no folder, and the boot goes on', async () => {
    const folder = scratchDir()
    symlinkSync('loop', join(folder, 'loop'))
    const harness = new Harness(plane, { ...enrolls, RUNNER_IDENTITY_DIR: join(folder, 'loop') })
    await harness.settle()
    expect(harness.messages('warn')).toContain('could not persist identity — next boot will re-enroll from scratch')
    expect(harness.states).toContain('ready')
    await harness.stop()
  })
})

describe('what a Service leaves in the environment', () => {
  test.each(['tcp://10.0.0.7:8080', 'udp://10.0.0.7:53', 'sctp://[fd00::7]:80'])(
    'RUNNER_HEALTH_PORT=%s is ignored, with a line that says where it came from',
    async (value) => {
      const harness = new Harness(plane, { RUNNER_BOOTSTRAP_TOKEN: 'muster_bt_t', RUNNER_HEALTH_PORT: value })
      await harness.settle()
      expect(harness.states).toContain('ready')
      expect(harness.messages('warn')).toEqual([
        'RUNNER_HEALTH_PORT is ignored: it is no port number but the address that Kubernetes gives of a Service called runner-health; enableServiceLinks: false in the pod keeps such variables away',
      ])
      await harness.stop()
    },
  )

  test.each(['http://10.0.0.7:8080', 'tcp', '8080/tcp'])('RUNNER_HEALTH_PORT=%s is a mistake', async (value) => {
    expect(await mistakesOf({ RUNNER_BOOTSTRAP_TOKEN: 'muster_bt_t', RUNNER_HEALTH_PORT: value })).toEqual([
      'RUNNER_HEALTH_PORT must be a port number, 0 to 65535',
    ])
  })
})

describe('secrets', () => {
  const secretsOf = (folder: string) => readSecrets(folder, 'acme')

  test('of a projected volume are read through its links', () => {
    const folder = scratchDir()
    mkdirSync(join(folder, 'acme', '..2026_01'), { recursive: true })
    writeFileSync(join(folder, 'acme', '..2026_01', 'password'), 'hush')
    symlinkSync('..2026_01', join(folder, 'acme', '..data'))
    symlinkSync('..data/password', join(folder, 'acme', 'password'))
    expect(secretsOf(folder)).toEqual(ok(new Map([['password', Uint8Array.from(Buffer.from('hush'))]])))
  })

  test('without an end do not hang the boot', () => {
    const folder = scratchDir()
    mkdirSync(join(folder, 'acme'))
    symlinkSync('/dev/zero', join(folder, 'acme', 'device'))
    execFileSync('mkfifo', [join(folder, 'acme', 'pipe')])
    expect(secretsOf(folder)).toEqual(ok(new Map()))
    writeFileSync(join(folder, 'acme', 'large'), Buffer.alloc(17 * 1024 * 1024))
    expect(secretsOf(folder)).toEqual({
      ok: false,
      error: `RUNNER_SECRETS_DIR cannot be read: ${join(folder, 'acme')} holds over 16 MiB`,
    })
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
    const reading = pemReader('RUNNER_KEY_PEM', value)()
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
    expect(pemReader('X', envOf('pem-literal-backslash-n.env').RUNNER_KEY_PEM ?? '')()).toHaveProperty('ok', true)
  })

  const others = cases.filter(({ file }) => !file.startsWith('pem-') && !file.startsWith('token-'))
  test.each(others)('$file: $expect', async ({ file, expect: expected }) => {
    const env = { RUNNER_BOOTSTRAP_TOKEN: 'muster_bt_t', ...envOf(file) }
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
    expect(await mistakesOf({ RUNNER_BOOTSTRAP_TOKEN: 'muster_bt_t' }, { tokenFile: '', runnerId: ' ' })).toEqual([
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
