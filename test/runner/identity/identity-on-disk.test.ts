// Tests what a runner does with the files on its disk: identity files in every state that a crash, a copy or an operator leaves behind, and
// provisioned certificates that are replaced under it.

import { createPrivateKey, X509Certificate } from 'node:crypto'
import {
  chmodSync,
  chownSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { forgeCa, forgeLeaf, type Issuer, pem } from '../../fakes/ca-forge.ts'
import { FakeControlPlane, problem } from '../../fakes/control-plane.ts'
import { Harness, HOUR, MINUTE, newKeyPem, SECOND, scratchDir } from '../harness.ts'

let plane: FakeControlPlane
let running: Harness[] = []
beforeAll(async () => {
  plane = await FakeControlPlane.start()
})
afterAll(() => plane.stop())
beforeEach(() => {
  plane.requests.length = 0
  plane.respond = () => undefined
})
afterEach(async () => {
  await Promise.all(running.map((one) => one.stop()))
  running = []
})

async function boot(env: NodeJS.ProcessEnv, certificates?: string, later = 0): Promise<Harness> {
  const harness = new Harness(plane, env, {}, certificates)
  running.push(harness)
  harness.clocks.wall += later
  await harness.settle()
  return harness
}

function replaceByFolder(path: string): void {
  rmSync(path)
  mkdirSync(path)
}

const JUNK = '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n'

const modes = () => plane.enrolls.map(({ body }) => body.attestation.mode)

describe('identity.json', () => {
  let good: string
  let owner: string
  let enrollmentId: string

  beforeAll(async () => {
    const folder = scratchDir()
    await (await boot({ RUNNER_BOOTSTRAP_TOKEN: 'muster_bt_t', RUNNER_IDENTITY_DIR: folder })).stop()
    good = readFileSync(join(folder, 'identity.json'), 'utf8')
    owner = readFileSync(join(folder, 'instance-id'), 'utf8')
    enrollmentId = plane.enrollmentId
  })

  /** A folder of the same owner with another identity file in it. */
  function folderWith(content: string | Buffer, mode = 0o600): string {
    plane.enrollmentId = enrollmentId
    const folder = scratchDir()
    writeFileSync(join(folder, 'instance-id'), owner)
    writeFileSync(join(folder, 'identity.json'), content)
    chmodSync(join(folder, 'identity.json'), mode)
    return folder
  }
  const changed = (change: object): string => JSON.stringify({ ...JSON.parse(good), ...change })

  const used: [string, () => string | Buffer, number?][] = [
    ['good', () => good],
    ['padded to a page with spaces', () => good.padEnd(4095)],
    ['of mode 0644', () => good, 0o644],
    ['of mode 0640', () => good, 0o640],
    ['of mode 0400', () => good, 0o400],
    ['with a field that is not ours', () => changed({ x: 1 })],
    ['with a __proto__', () => `{"__proto__":{"isAdmin":true},${good.slice(1)}`],
  ]
  test.each(used)('%s is used and has mode 600', async (_name, content, mode = 0o600) => {
    const folder = folderWith(content(), mode)
    const harness = await boot({ RUNNER_IDENTITY_DIR: folder })
    expect(modes()).toEqual(['mtls-renewal'])
    expect(harness.states).toContain('ready')
    expect(statSync(join(folder, 'identity.json')).mode & 0o777).toBe(0o600)
    const loose = (mode & 0o077) !== 0
    expect(harness.messages('warn')).toEqual(loose ? ['persisted identity was open to other users than its owner'] : [])
    expect(({} as { isAdmin?: boolean }).isAdmin).toBeUndefined()
  })

  const CANNOT = 'persisted identity cannot be used: '
  const ignored: [string, () => string | Buffer, string][] = [
    ['empty', () => '', `${CANNOT}it is not one JSON object — ignoring`],
    ['filled with NUL', () => Buffer.alloc(1790), `${CANNOT}it is not one JSON object — ignoring`],
    ['cut in the middle of the key', () => good.slice(0, 700), `${CANNOT}it is not one JSON object — ignoring`],
    ['two documents', () => good + good, `${CANNOT}it is not one JSON object — ignoring`],
    ['with the tail of a longer one', () => `${good}}\n`, `${CANNOT}it is not one JSON object — ignoring`],
    ['with a byte order mark', () => `\ufeff${good}`, `${CANNOT}it is not one JSON object — ignoring`],
    ['null', () => 'null', `${CANNOT}it is not one JSON object — ignoring`],
    ['an array', () => '[]', `${CANNOT}it is not one JSON object — ignoring`],
    ['a number deep in arrays', () => '['.repeat(5000), `${CANNOT}it is not one JSON object — ignoring`],
    ['too large', () => good.padEnd(300_000), `${CANNOT}it cannot be read (not a file of ours) — ignoring`],
    ['with a field missing', () => changed({ chain: undefined }), `${CANNOT}a field is missing — ignoring`],
    ['with a key that is none', () => changed({ key: 'k' }), `${CANNOT}its key cannot be read — ignoring`],
    [
      'with the key of another certificate',
      () => changed({ key: newKeyPem() }),
      `${CANNOT}the key is not the key of the certificate — ignoring`,
    ],
    [
      'with a certificate that is none',
      () => changed({ certificate: JUNK }),
      `${CANNOT}the certificate cannot be read — ignoring`,
    ],
    ...(['chain', 'trustBundle'] as const).flatMap((name): [string, () => string, string][] => {
      const what = name === 'chain' ? 'chain' : 'trust bundle'
      const reason = `${CANNOT}a certificate of the ${what} cannot be read — ignoring`
      const block = (): string => JSON.parse(good)[name]
      return [
        [`with a ${name} that is none`, () => changed({ [name]: 'junk' }), reason],
        [`with junk in a block of its ${name}`, () => changed({ [name]: `${block()}${JUNK}` }), reason],
        [`with a ${name} whose last block is cut`, () => changed({ [name]: block() + block().slice(0, 200) }), reason],
      ]
    }),
    [
      'of a later version',
      () => changed({ version: 99 }),
      'persisted identity was written by another version — ignoring',
    ],
    [
      'of another owner',
      () => changed({ owner: 'x' }),
      'persisted identity was written for another identity dir — ignoring',
    ],
  ]
  test.each(ignored)('%s is set aside with its reason, and the boot enrolls', async (_name, content, reason) => {
    const bytes = content()
    const folder = folderWith(bytes, 0o644)
    const harness = await boot({ RUNNER_BOOTSTRAP_TOKEN: 'muster_bt_t', RUNNER_IDENTITY_DIR: folder })
    expect(harness.messages('warn')).toEqual([reason])
    expect(modes()).toEqual(['bootstrap-token'])
    expect(readFileSync(join(folder, 'identity.json.set-aside'))).toEqual(Buffer.from(bytes))
    expect(statSync(join(folder, 'identity.json.set-aside')).mode & 0o777).toBe(0o600)
    expect(harness.text.join('')).not.toMatch(/PRIVATE|MIGH/)
  })

  test('past its renewal window is not renewed; without a token the runner says so at once', async () => {
    const folder = folderWith(good)
    const harness = await boot({ RUNNER_IDENTITY_DIR: folder }, undefined, 22 * MINUTE)
    expect(harness.exit).toEqual({
      exitCode: 78,
      messages: ['RUNNER_ATTESTATION_MODE=bootstrap-token requires RUNNER_BOOTSTRAP_TOKEN'],
    })
    expect(plane.requests).toEqual([])
  })

  test('a temporary file of a killed process is no identity, and is removed', async () => {
    const folder = scratchDir()
    writeFileSync(join(folder, 'identity.json.tmp-4711'), good.slice(0, 300))
    await boot({ RUNNER_BOOTSTRAP_TOKEN: 'muster_bt_t', RUNNER_IDENTITY_DIR: folder })
    expect(modes()).toEqual(['bootstrap-token'])
    expect(readdirSync(folder).sort()).toEqual(['identity.json', 'instance-id'])
  })

  test('a link in its place is neither followed nor written through', async () => {
    const folder = scratchDir()
    const target = join(scratchDir(), 'target')
    writeFileSync(join(folder, 'instance-id'), owner)
    writeFileSync(target, good)
    symlinkSync(target, join(folder, 'identity.json'))
    await boot({ RUNNER_BOOTSTRAP_TOKEN: 'muster_bt_t', RUNNER_IDENTITY_DIR: folder })
    expect(modes()).toEqual(['bootstrap-token'])
    expect(readFileSync(target, 'utf8')).toBe(good)
    expect(lstatSync(join(folder, 'identity.json')).isFile()).toBe(true)
  })

  test("beside an instance-id that cannot be read it is no other folder's: the message says what is wrong", async () => {
    const folder = folderWith(good)
    rmSync(join(folder, 'instance-id'))
    mkdirSync(join(folder, 'instance-id'))
    const harness = await boot({ RUNNER_BOOTSTRAP_TOKEN: 'muster_bt_t', RUNNER_IDENTITY_DIR: folder })
    expect(harness.messages('warn')[0]).toBe(
      'persisted identity cannot be used: instance-id beside it cannot be read (not a file of ours) — ignoring',
    )
    expect(readFileSync(join(folder, 'identity.json.set-aside'), 'utf8')).toBe(good)
  })

  test('under any umask the folder is 0700 and the files are 0600', async () => {
    const before = process.umask(0)
    const folder = join(scratchDir(), 'new')
    try {
      await boot({ RUNNER_BOOTSTRAP_TOKEN: 'muster_bt_t', RUNNER_IDENTITY_DIR: folder })
    } finally {
      process.umask(before)
    }
    const mode = (path: string) => statSync(path).mode & 0o777
    expect(mode(folder)).toBe(0o700)
    for (const name of readdirSync(folder)) expect(mode(join(folder, name))).toBe(0o600)
  })

  describe('the key of an enrollment that was not answered', () => {
    const pending = async (): Promise<string> => {
      const folder = scratchDir()
      plane.respond = () => ({ status: 503, body: '' })
      await (await boot({ RUNNER_BOOTSTRAP_TOKEN: 'muster_bt_t', RUNNER_IDENTITY_DIR: folder })).stop()
      plane.respond = () => undefined
      return folder
    }

    test.each([
      ['went on for eleven minutes', 11 * MINUTE],
      ['went back ten minutes', -10 * MINUTE],
      ['went back to 1970', -Date.now() + MINUTE],
      ['was set right after months', 200 * 24 * HOUR],
    ])('is used again where the clock %s', async (_name, later) => {
      const folder = await pending()
      await boot({ RUNNER_BOOTSTRAP_TOKEN: 'muster_bt_t', RUNNER_IDENTITY_DIR: folder }, undefined, later)
      expect(plane.enrolls.length).toBeGreaterThan(1)
      expect(new Set(plane.enrolls.map(({ body }) => body.csr)).size).toBe(1)
      expect(existsSync(join(folder, 'enrollment.json'))).toBe(false)
    })

    test.each([
      ['muster_bt_t', 'all that can get the certificate of a spent token, stays', 1],
      ['muster_rt_t', 'refused once, makes room for a new one where the token serves again', 2],
    ])('with %s, %s', async (token, _says, keys) => {
      const folder = await pending()
      plane.requests.length = 0
      plane.respond = () => problem(401, 'attestation_invalid')
      const harness = await boot({ RUNNER_TOKEN: token, RUNNER_IDENTITY_DIR: folder })
      await harness.pass(2 * SECOND)
      expect(plane.enrolls).toHaveLength(2)
      expect(new Set(plane.enrolls.map(({ body }) => body.csr)).size).toBe(keys)
    })

    test('that others can have written is not, and the log says so', async () => {
      const folder = await pending()
      chmodSync(join(folder, 'enrollment.json'), 0o606)
      const harness = await boot({ RUNNER_BOOTSTRAP_TOKEN: 'muster_bt_t', RUNNER_IDENTITY_DIR: folder })
      expect(new Set(plane.enrolls.map(({ body }) => body.csr)).size).toBe(2)
      expect(harness.messages('warn')).toEqual([
        'enrollment.json cannot be used: others than its owner may write it (mode 0606) — ignoring; a token that was spent with it is lost',
      ])
    })
  })

  test.each([0o660, 0o620, 0o602, 0o606, 0o777])('of mode %o can be anybody’s: it is set aside', async (mode) => {
    const folder = folderWith(good, mode)
    const harness = await boot({ RUNNER_BOOTSTRAP_TOKEN: 'muster_bt_t', RUNNER_IDENTITY_DIR: folder })
    const octal = `0${mode.toString(8)}`
    expect(harness.messages('warn')).toEqual([
      `persisted identity cannot be used: others than its owner may write it (mode ${octal}) — ignoring`,
    ])
    expect(modes()).toEqual(['bootstrap-token'])
    expect(statSync(join(folder, 'identity.json.set-aside')).mode & 0o777).toBe(0o600)
  })

  test.skipIf(process.geteuid?.() !== 0)('of another user is set aside', async () => {
    const folder = folderWith(good)
    chownSync(join(folder, 'identity.json'), 4711, 4711)
    const harness = await boot({ RUNNER_BOOTSTRAP_TOKEN: 'muster_bt_t', RUNNER_IDENTITY_DIR: folder })
    expect(harness.messages('warn')).toEqual(['persisted identity cannot be used: it belongs to user 4711 — ignoring'])
    expect(modes()).toEqual(['bootstrap-token'])
  })

  test('in a folder that others may write is used, and one line warns of them', async () => {
    const folder = folderWith(good)
    chmodSync(folder, 0o770)
    const harness = await boot({ RUNNER_IDENTITY_DIR: folder })
    expect(modes()).toEqual(['mtls-renewal'])
    expect(harness.messages('warn')).toEqual([
      `others may replace the files in ${folder}: others than its owner may write it (mode 0770)`,
    ])
  })

  test.skipIf(process.geteuid?.() !== 0)(
    'in the folder of another user is used, and one line warns of them',
    async () => {
      const folder = folderWith(good)
      chownSync(folder, 4711, 4711)
      const harness = await boot({ RUNNER_IDENTITY_DIR: folder })
      expect(modes()).toEqual(['mtls-renewal'])
      expect(harness.messages('warn')).toEqual([`others may replace the files in ${folder}: it belongs to user 4711`])
    },
  )

  test.each([
    ['a clock that went back: not yet valid', -HOUR],
    ['a clock of 1970', -Date.now() + MINUTE],
  ])('is used under %s', async (_name, later) => {
    const folder = folderWith(good)
    const harness = await boot({ RUNNER_IDENTITY_DIR: folder }, undefined, later)
    expect(modes()).toEqual(['mtls-renewal'])
    expect(harness.messages()).not.toContain('persisted identity expired beyond the renewal grace window — enrolling')
  })

  test('that a clock set wrong makes out to be past its window stays for a boot with the right clock', async () => {
    const folder = folderWith(good)
    plane.respond = () => problem(401, 'attestation_invalid')
    const wrong = await boot(
      { RUNNER_BOOTSTRAP_TOKEN: 'muster_bt_spent', RUNNER_IDENTITY_DIR: folder },
      undefined,
      24 * HOUR,
    )
    await wrong.pass(MINUTE)
    expect(wrong.exit?.exitCode).toBe(77)
    plane.respond = () => undefined
    plane.requests.length = 0
    await boot({ RUNNER_BOOTSTRAP_TOKEN: 'muster_bt_spent', RUNNER_IDENTITY_DIR: folder })
    expect(modes()).toEqual(['mtls-renewal'])
  })

  test('renews as soon as a refusal of the spent token tells that it is inside its window after all', async () => {
    const folder = folderWith(good)
    const now = Date.now()
    plane.next.push(() => problem(401, 'attestation_invalid', { serverTime: new Date(now).toISOString() }))
    const env = { RUNNER_BOOTSTRAP_TOKEN: 'muster_bt_spent', RUNNER_IDENTITY_DIR: folder }
    const harness = await boot(env, undefined, 24 * HOUR)
    plane.issuing.clock = Date.now
    await harness.pass(MINUTE)
    expect(modes()).toEqual(['bootstrap-token', 'mtls-renewal'])
    expect(harness.messages('warn')).toContain(
      "the persisted identity is inside its window by the control plane's clock — renewing",
    )
    expect(harness.states).toContain('ready')
    expect(readFileSync(join(folder, 'identity.json'), 'utf8')).not.toBe(good)
  })

  test('is not tried where its tenant is not the declared one', async () => {
    const folder = folderWith(good)
    plane.respond = () => problem(401, 'attestation_invalid', { serverTime: new Date().toISOString() })
    const env = { RUNNER_BOOTSTRAP_TOKEN: 'muster_bt_spent', RUNNER_IDENTITY_DIR: folder, RUNNER_TENANT: 'other' }
    const harness = await boot(env, undefined, 24 * HOUR)
    await harness.pass(MINUTE)
    expect(modes()).toEqual(['bootstrap-token', 'bootstrap-token', 'bootstrap-token'])
    expect(harness.exit?.exitCode).toBe(77)
  })
})

describe('a provisioned certificate', () => {
  const DAY = 24 * HOUR
  let issuer: Issuer

  beforeAll(async () => {
    issuer = await forgeCa()
  })

  interface Provisioned {
    readonly certificate: string
    readonly key: string
  }
  async function provision(days: number): Promise<Provisioned> {
    const now = Date.now()
    const times = { notBefore: new Date(now - 60_000), notAfter: new Date(now + days * DAY) }
    const { keys, der } = await forgeLeaf(issuer, times)
    const pkcs8 = new Uint8Array((await crypto.subtle.exportKey('pkcs8', keys.privateKey)) as ArrayBuffer)
    return { certificate: pem('CERTIFICATE', der), key: pem('PRIVATE KEY', pkcs8) }
  }
  function write({ certificate, key }: Provisioned, folder = scratchDir()): string {
    writeFileSync(join(folder, 'cert.pem'), certificate + issuer.pem)
    writeFileSync(join(folder, 'key.pem'), key)
    writeFileSync(join(folder, 'ca.pem'), issuer.pem)
    return folder
  }
  const WITHOUT_ENROLLMENT = { RUNNER_ENROLL_URL: '', RUNNER_TUNNEL_URL: 'wss://muster.test' }

  test('takes precedence: its boot line, the variables that it overrides, no enrollment, no persisted identity', async () => {
    const provisioned = await provision(30)
    const folder = write(provisioned)
    const identityDir = scratchDir()
    const harness = await boot(
      {
        ...WITHOUT_ENROLLMENT,
        RUNNER_BOOTSTRAP_TOKEN: 'muster_bt_t',
        AWS_REGION: 'us-east-1',
        RUNNER_IDENTITY_DIR: identityDir,
      },
      folder,
    )
    const at = harness.lines.findIndex(({ message }) => message === 'using provisioned cert')
    expect(harness.text[at]).toMatch(
      /^\{"level":"info","message":"using provisioned cert","spiffeId":"spiffe:\/\/rootpilot\/tenant\/acme\/runner","notAfter":"/,
    )
    const { validToDate } = new X509Certificate(provisioned.certificate)
    expect(harness.lines[at]?.notAfter).toBe(validToDate.toISOString().replace('.000Z', 'Z'))
    expect(harness.lines[at + 1]).toMatchObject({
      level: 'warn',
      overridden: ['RUNNER_BOOTSTRAP_TOKEN', 'AWS_REGION', 'RUNNER_IDENTITY_DIR'],
    })
    expect(harness.announced).toEqual(['kept', 'ready'])
    expect(plane.requests).toEqual([])
    expect(readdirSync(identityDir)).toEqual([])
    expect(harness.agent.identity?.tenant).toBe('acme')
  })

  test('given inline or by path is the same', async () => {
    const { certificate, key } = await provision(30)
    const folder = write({ certificate, key })
    for (const [cert, pemOfKey] of [
      [certificate, key],
      [certificate.replaceAll('\n', '\\n'), key.replaceAll('\n', '\r\n')],
      [join(folder, 'cert.pem'), join(folder, 'key.pem')],
    ] as const) {
      const harness = await boot({ ...WITHOUT_ENROLLMENT, RUNNER_CERT_PEM: cert, RUNNER_KEY_PEM: pemOfKey })
      expect(harness.states).toContain('ready')
    }
  })

  test('is read with text around it, and a key with its parameters, in one file or two', async () => {
    const { certificate, key } = await provision(30)
    const sec1 = createPrivateKey(key).export({ type: 'sec1', format: 'pem' }).toString()
    const parameters = '-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n'
    const both = `subject=O=acme\n${certificate}\nBag Attributes\n${parameters}${sec1}`
    const harness = await boot({ ...WITHOUT_ENROLLMENT, RUNNER_CERT_PEM: both, RUNNER_KEY_PEM: both })
    expect(harness.states).toContain('ready')
  })

  test('with a CA file that holds a key too is a mistake', async () => {
    const { certificate, key } = await provision(30)
    const folder = write({ certificate, key })
    writeFileSync(join(folder, 'ca.pem'), issuer.pem + key)
    const harness = await boot(WITHOUT_ENROLLMENT, folder)
    const messages = [`${join(folder, 'ca.pem')} is not a certificate in PEM: a PEM block that is not a CERTIFICATE`]
    expect(harness.exit).toEqual({ exitCode: 78, messages })
  })

  test('without an enroll or tunnel URL is a mistake', async () => {
    const harness = await boot({ RUNNER_ENROLL_URL: '' }, write(await provision(30)))
    expect(harness.exit).toEqual({
      exitCode: 78,
      messages: ['provisioned cert requires RUNNER_TUNNEL_URL or RUNNER_ENROLL_URL'],
    })
  })

  test('without its key, or a key without a certificate, is a mistake', async () => {
    const { certificate, key } = await provision(30)
    const alone = await boot({ ...WITHOUT_ENROLLMENT, RUNNER_CERT_PEM: certificate })
    expect(alone.exit).toEqual({ exitCode: 78, messages: ['RUNNER_CERT_PEM is given without RUNNER_KEY_PEM'] })
    const keyAlone = await boot({ ...WITHOUT_ENROLLMENT, RUNNER_KEY_PEM: key })
    expect(keyAlone.exit).toEqual({ exitCode: 78, messages: ['RUNNER_KEY_PEM is given without RUNNER_CERT_PEM'] })
    const other = await boot({ ...WITHOUT_ENROLLMENT, RUNNER_CERT_PEM: certificate, RUNNER_KEY_PEM: newKeyPem() })
    expect(other.exit?.messages).toEqual(['RUNNER_CERT_PEM: the key is not the key of the certificate'])
    const path = await boot({ ...WITHOUT_ENROLLMENT, RUNNER_CERT_PEM: '/nowhere/c.pem', RUNNER_KEY_PEM: key })
    expect(path.exit?.messages).toEqual([
      'RUNNER_CERT_PEM is neither a PEM nor the path of a file that can be read (ENOENT)',
    ])
  })

  describe('that is none of ours, in the default folder,', () => {
    const ENROLLMENT = { RUNNER_BOOTSTRAP_TOKEN: 'muster_bt_t' }
    /** As Docker mounts them: a client certificate without a SPIFFE ID. */
    const dockerFolder = (): string => {
      const folder = scratchDir()
      for (const name of ['cert.pem', 'key.pem', 'ca.pem']) {
        const of = name === 'key.pem' ? newKeyPem() : issuer.pem
        writeFileSync(join(folder, name), of)
      }
      return folder
    }

    test('is passed over with its path, and the runner enrolls', async () => {
      const folder = dockerFolder()
      const harness = await boot(ENROLLMENT, folder)
      expect(modes()).toEqual(['bootstrap-token'])
      expect(harness.states).toContain('ready')
      expect(harness.messages('warn')).toEqual([
        `${join(folder, 'cert.pem')} is passed over: it is no certificate of a runner`,
      ])
    })

    test.each<[string, (folder: string) => void, string]>([
      ['junk', (folder) => writeFileSync(join(folder, 'cert.pem'), 'junk'), 'cert.pem'],
      ['cut', (folder) => writeFileSync(join(folder, 'cert.pem'), issuer.pem.slice(0, 200)), 'cert.pem'],
      ['a folder', (folder) => replaceByFolder(join(folder, 'cert.pem')), 'cert.pem'],
      ['a key alone', (folder) => rmSync(join(folder, 'cert.pem')), 'key.pem'],
    ])('so is %s', async (_name, change, named) => {
      const folder = dockerFolder()
      change(folder)
      const harness = await boot(ENROLLMENT, folder)
      expect(modes()).toEqual(['bootstrap-token'])
      expect(harness.messages('warn')[0]).toContain(`${join(folder, named)} is passed over: `)
      expect(harness.text.join('')).not.toMatch(/RUNNER_(CERT|KEY|CA)_PEM/)
    })

    test.each<[string, (path: string) => void]>([
      ['holds no certificate', (path) => writeFileSync(path, 'junk')],
      ['is a folder', replaceByFolder],
    ])('nor does a ca.pem beside it that %s end the boot', async (_name, change) => {
      const folder = dockerFolder()
      change(join(folder, 'ca.pem'))
      const harness = await boot(ENROLLMENT, folder)
      expect(harness.states).toContain('ready')
      expect(harness.messages('warn')).toEqual([
        expect.stringContaining(`${join(folder, 'cert.pem')} is passed over: `),
        expect.stringMatching(/ca\.pem.*: it is passed over$/),
      ])
    })

    test("but a ca.pem alone is the operator's: one that cannot be read is a mistake", async () => {
      const folder = dockerFolder()
      for (const name of ['cert.pem', 'key.pem']) rmSync(join(folder, name))
      writeFileSync(join(folder, 'ca.pem'), 'junk')
      const harness = await boot(ENROLLMENT, folder)
      expect(harness.exit?.messages).toEqual([`${join(folder, 'ca.pem')}: there is no PEM in the file`])
    })

    test('without an enrollment is a mistake that names the file, and no variable that nobody set', async () => {
      const folder = dockerFolder()
      const harness = await boot(WITHOUT_ENROLLMENT, folder)
      expect(harness.exit).toEqual({
        exitCode: 78,
        messages: [`${join(folder, 'cert.pem')}: the key is not the key of the certificate`],
      })
    })

    test('named by a variable is a mistake', async () => {
      const folder = dockerFolder()
      const harness = await boot({ ...ENROLLMENT, RUNNER_CERT_PEM: join(folder, 'cert.pem') }, folder)
      expect(harness.exit?.exitCode).toBe(78)
    })

    test('differs from one of ours without its key, which is a mistake', async () => {
      const folder = write(await provision(30))
      rmSync(join(folder, 'key.pem'))
      const harness = await boot(ENROLLMENT, folder)
      expect(harness.exit).toEqual({
        exitCode: 78,
        messages: [`${join(folder, 'cert.pem')} is given without ${join(folder, 'key.pem')}`],
      })
    })
  })

  test('of another tenant than the declared one refuses to start, before secrets', async () => {
    const harness = await boot({ ...WITHOUT_ENROLLMENT, RUNNER_TENANT: 'umbrella' }, write(await provision(30)))
    expect(harness.exit).toEqual({
      exitCode: 78,
      messages: ['RUNNER_TENANT=umbrella but this runner enrolled as acme: refusing to start'],
    })
    expect(harness.lines.map(({ state }) => state)).not.toContain('secrets')
  })

  test('that nothing renews warns at two thirds and daily, then errs hourly with the date, not ready, still up', async () => {
    const harness = await boot(WITHOUT_ENROLLMENT, write(await provision(30)))
    const said = (level: string) => harness.lines.filter((line) => line.level === level && line.notAfter !== undefined)
    const jump = async (duration: number) => {
      harness.suspend(duration)
      await harness.pass(31 * SECOND)
    }
    await jump(19 * DAY)
    expect(said('warn')).toHaveLength(0)
    await jump(1.5 * DAY)
    expect(said('warn')).toHaveLength(1)
    await jump(HOUR)
    expect(said('warn')).toHaveLength(1)
    await jump(DAY)
    expect(said('warn')).toHaveLength(2)
    await jump(8.5 * DAY)
    expect(said('error')).toHaveLength(1)
    expect(said('error')[0]?.message).toMatch(
      /^the provisioned certificate expired on 20\d\d-\d\d-\d\dT[\d:]+Z: replace it$/,
    )
    expect(harness.agent.unready).toBe('no live certificate')
    await jump(HOUR)
    expect(said('error')).toHaveLength(2)
    expect(harness.exit).toBeNull()
  })

  test('that an operator replaces is taken up, and the tunnel opened with it', async () => {
    const folder = write(await provision(1))
    const harness = await boot(WITHOUT_ENROLLMENT, folder)
    harness.suspend(2 * DAY)
    harness.sockets[0]?.end(4001)
    await harness.pass(31 * SECOND)
    expect(harness.agent.unready).toBe('no live certificate')
    const next = await provision(60)
    write(next, folder)
    await harness.pass(31 * SECOND)
    expect(harness.agent.identity?.certificate).toBe(next.certificate)
    expect(harness.agent.unready).toBeNull()
    expect(harness.messages().filter((message) => message === 'using provisioned cert')).toHaveLength(2)
    expect(harness.announced).toEqual(['kept', 'ready', 'renewed', 'ready'])
  })

  test('that is replaced while its renewal is under way stays replaced', async () => {
    plane.issuing.mode = 'provisioned'
    plane.enrollmentId = '01a227d6-456c-7e63-afe4-79a0e771d070'
    const folder = write(await provision(30))
    const next = await provision(60)
    const harness = await boot({ RUNNER_TUNNEL_URL: 'wss://muster.test' }, folder)
    plane.next.push(() => {
      write(next, folder)
      // It connects anew, and looks at the files before.
      harness.sockets[0]?.end(1006)
      return undefined
    })
    harness.suspend(20 * DAY)
    await harness.pass(31 * SECOND)
    expect(modes()).toEqual(['mtls-renewal'])
    expect(harness.agent.identity?.certificate).toBe(next.certificate)
  })

  test('half replaced is left alone until both halves are there', async () => {
    const folder = write(await provision(30))
    const harness = await boot(WITHOUT_ENROLLMENT, folder)
    const before = harness.agent.identity
    const next = await provision(60)
    writeFileSync(join(folder, 'cert.pem'), next.certificate)
    await harness.pass(5 * MINUTE)
    expect(harness.agent.identity).toBe(before)
    expect(harness.lines.filter(({ level }) => level === 'warn')).toMatchObject([
      {
        message: 'the replaced provisioned certificate is not taken up',
        why: `${join(folder, 'cert.pem')}: the key is not the key of the certificate`,
      },
    ])
    writeFileSync(join(folder, 'key.pem'), next.key)
    await harness.pass(31 * SECOND)
    expect(harness.agent.identity?.certificate).toBe(next.certificate)
  })

  test('whose chain is half written is left alone until it is whole, and at boot is a mistake', async () => {
    const folder = write(await provision(30))
    const harness = await boot(WITHOUT_ENROLLMENT, folder)
    const before = harness.agent.identity
    const next = await provision(60)
    write(next, folder)
    writeFileSync(join(folder, 'cert.pem'), next.certificate + issuer.pem.slice(0, 200))
    await harness.pass(31 * SECOND)
    expect(harness.agent.identity).toBe(before)
    const late = await boot(WITHOUT_ENROLLMENT, folder)
    expect(late.exit).toEqual({
      exitCode: 78,
      messages: [`${join(folder, 'cert.pem')} is not a certificate in PEM, or one of its chain is cut`],
    })
    write(next, folder)
    await harness.pass(31 * SECOND)
    expect(harness.agent.identity?.certificate).toBe(next.certificate)
  })

  test('is renewed where there is a control plane to ask', async () => {
    plane.issuing.mode = 'provisioned'
    plane.enrollmentId = '01a227d6-456c-7e63-afe4-79a0e771d070'
    const folder = write(await provision(30))
    const harness = await boot({ RUNNER_TUNNEL_URL: 'wss://muster.test' }, folder)
    expect(modes()).toEqual([])
    harness.suspend(20 * DAY)
    await harness.pass(31 * SECOND)
    expect(modes()).toEqual(['mtls-renewal'])
    expect(existsSync(join(folder, 'identity.json'))).toBe(false)
  })

  test('that only a wrong clock makes out to be over is renewed: the control plane decides', async () => {
    plane.issuing.mode = 'provisioned'
    plane.enrollmentId = '01a227d6-456c-7e63-afe4-79a0e771d070'
    const harness = await boot({ RUNNER_TUNNEL_URL: 'wss://muster.test' }, write(await provision(30)), 60 * DAY)
    expect(modes()).toEqual(['mtls-renewal'])
    expect(harness.states).toContain('ready')
  })

  test('whose renewal is refused for good says that another must be issued', async () => {
    const harness = await boot({ RUNNER_TUNNEL_URL: 'wss://muster.test' }, write(await provision(30)))
    plane.respond = () => problem(401, 'attestation_invalid')
    harness.suspend(20 * DAY)
    await harness.pass(MINUTE)
    expect(harness.exit?.exitCode).toBe(75)
    expect(harness.exit?.messages.at(-1)).toBe('a provisioned certificate that cannot be renewed must be issued anew')
  })
})
