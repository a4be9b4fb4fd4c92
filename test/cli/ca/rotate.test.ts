// Tests `muster ca rotate`: its steps, their order, and what a step that was cut off leaves.
import { createPrivateKey, X509Certificate } from 'node:crypto'
import fs, {
  chmodSync,
  cpSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:http'
import { syncBuiltinESMExports } from 'node:module'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { createCa } from '../../../src/cli/ca/create.ts'
import { activateNext, faultOfNext, placeNext, removeNext, rotationState } from '../../../src/cli/ca/rotation.ts'
import { systemClock, toEpochSeconds } from '../../../src/protocol/time.ts'
import { runMuster } from '../../end-to-end/muster.ts'

const work = mkdtempSync(join(tmpdir(), 'muster-ca-rotate-'))
const made = join(work, 'made')
const prepared = join(work, 'prepared')
const ca = join(work, 'ca')
const KEYS_AND_CERTIFICATES = ['issuing.key.pem', 'issuing.pem', 'root.key.pem', 'root.pem']

const read = (...names: string[]) => readFileSync(join(ca, ...names), 'utf8')
const secrets = () => JSON.parse(read('secrets.json'))
const rotate = (step: string, ...more: string[]) => runMuster(['ca', 'rotate', step, '--dir', ca, ...more])
const begin = (from: string) => {
  rmSync(ca, { recursive: true, force: true })
  cpSync(from, ca, { recursive: true })
}

let bundle = ''
const server = createServer((_, response) => response.end(bundle)).listen(0, '127.0.0.1')
const url = () => `http://127.0.0.1:${(server.address() as AddressInfo).port}`

beforeAll(async () => {
  expect((await runMuster(['ca', 'init', '--dir', made])).code).toBe(0)
  cpSync(made, prepared, { recursive: true })
  expect((await runMuster(['ca', 'rotate', 'prepare', '--dir', prepared])).code).toBe(0)
})
beforeEach(() => {
  begin(prepared)
  bundle = read('root.pem') + read('next', 'root.pem')
})
afterAll(() => {
  server.close()
  rmSync(work, { recursive: true })
})

/** The folder of a rotation whose activation has come to its end, each key beside its certificate. */
function expectActivated({ oldRootKey }: { oldRootKey: boolean }) {
  expect(rotationState(ca)).toBe('activated')
  expect(
    readdirSync(ca)
      .filter((name) => name !== 'secrets.json')
      .sort(),
  ).toEqual([...KEYS_AND_CERTIFICATES.slice(0, 2), 'previous', ...KEYS_AND_CERTIFICATES.slice(2)])
  expect(readdirSync(join(ca, 'previous')).sort()).toEqual(
    KEYS_AND_CERTIFICATES.filter((name) => oldRootKey || name !== 'root.key.pem'),
  )
  for (const [folder, source] of [
    [ca, join(prepared, 'next')],
    [join(ca, 'previous'), made],
  ] as const) {
    for (const name of readdirSync(folder).filter((name) => KEYS_AND_CERTIFICATES.includes(name))) {
      expect(readFileSync(join(folder, name), 'utf8'), `${folder} ${name}`).toBe(
        readFileSync(join(source, name), 'utf8'),
      )
      expect(statSync(join(folder, name)).mode & 0o777).toBe(name.endsWith('.key.pem') ? 0o600 : 0o644)
    }
  }
}

test('each step says what to do now before what comes next, with the folder in every command', async () => {
  begin(made)
  const steps = [await rotate('prepare')]
  bundle = read('root.pem') + read('next', 'root.pem')
  steps.push(await rotate('activate', '--url', url()))
  const now = `now:\n  npx wrangler secret bulk ${ca}/secrets.json\n  then remove ${ca}/secrets.json\n`
  const [prepared = '', activated = ''] = steps.map(({ stdout }) => stdout)
  expect(prepared).toContain(
    `${now}\nnext, when the live bundle has had both roots for a day, so that all who read it have the new one:\n  muster ca rotate activate --dir ${ca} --url https://`,
  )
  expect(activated).toContain(
    `${now}\nnext, when no live runner holds a certificate of the old CA:\n  muster ca rotate retire --dir ${ca} --remote\n`,
  )
})

test('the private keys of a CA that was retired are named until they are removed', async () => {
  expect((await rotate('activate', '--url', url())).code).toBe(0)
  expect((await runMuster(['ca', 'show', '--dir', ca])).stdout).not.toContain('retired')
  const retired = await rotate('retire', '--force')
  const [folder = ''] = readdirSync(ca).filter((name) => name.startsWith('retired-'))
  const keys = ['issuing.key.pem', 'root.key.pem'].map((name) => join(ca, folder, name))
  const line = `nothing needs the private keys of retired CAs, remove them: ${keys.join(', ')}\n`
  expect(retired.stdout).toContain(line)
  expect((await runMuster(['ca', 'show', '--dir', ca])).stdout).toContain(line)
  expect(JSON.parse((await runMuster(['ca', 'show', '--dir', ca, '--json'])).stdout).retiredKeys).toEqual(keys)
  for (const key of keys) rmSync(key)
  expect((await runMuster(['ca', 'show', '--dir', ca])).stdout).not.toContain('retired')
})

test('a folder that is not there is named, with the option that names another', async () => {
  for (const words of [
    'rotate prepare',
    'rotate activate --force',
    'rotate retire',
    'show',
    'issue --out o --tenant acme',
  ]) {
    expect(await runMuster(['ca', ...words.split(' '), '--dir', join(work, 'none')])).toMatchObject({
      code: 1,
      stdout: '',
      stderr: `muster: the CA folder ${join(work, 'none')} does not exist; name another with --dir\n`,
    })
  }
})

test.each([true, false])(
  'activate names a stray file and moves nothing; then each key is beside its certificate (old root key there: %s)',
  async (oldRootKey) => {
    if (!oldRootKey) rmSync(join(ca, 'root.key.pem'))
    writeFileSync(join(ca, 'next', 'notes.txt'), 'hello')
    const stray = await rotate('activate', '--url', url())
    expect([stray.code, stray.stderr]).toEqual([1, expect.stringContaining('"notes.txt"')])
    expect(read('issuing.pem')).toBe(readFileSync(join(made, 'issuing.pem'), 'utf8'))
    expect(existsSync(join(ca, 'previous'))).toBe(false)
    rmSync(join(ca, 'next', 'notes.txt'))
    expect(await rotate('activate', '--url', url())).toMatchObject({ code: 0, stderr: '' })
    expectActivated({ oldRootKey })
    const root = new X509Certificate(read('root.pem'))
    expect(root.checkPrivateKey(createPrivateKey(read('root.key.pem')))).toBe(true)
  },
)

/** Lets the `n`th change of a file fail as a power cut does: it and none after it happens. Whether it came to that. */
function cutAt(n: number, run: () => void): boolean {
  const before = {
    renameSync: fs.renameSync,
    writeFileSync: fs.writeFileSync,
    writeSync: fs.writeSync,
    mkdirSync: fs.mkdirSync,
    rmSync: fs.rmSync,
  }
  let changes = 0
  const counted =
    <A extends unknown[], R>(change: (...args: A) => R) =>
    (...args: A): R => {
      changes += 1
      if (changes >= n) throw new Error('cut')
      return change(...args)
    }
  Object.assign(fs, {
    renameSync: counted(before.renameSync),
    writeFileSync: counted(before.writeFileSync),
    writeSync: counted(before.writeSync),
    mkdirSync: counted(before.mkdirSync),
    rmSync: counted(before.rmSync),
  })
  syncBuiltinESMExports()
  try {
    run()
  } catch {
    // As the cut leaves it.
  } finally {
    Object.assign(fs, before)
    syncBuiltinESMExports()
  }
  return changes >= n
}

test.each([true, false])(
  'an activation cut off anywhere, done again, ends in the same folder (old root key there: %s)',
  (oldRootKey) => {
    const activate = () => {
      if (rotationState(ca) === 'prepared') activateNext(ca)
      removeNext(ca)
    }
    let cuts = 0
    for (let cut = true; cut; ) {
      begin(prepared)
      if (!oldRootKey) rmSync(join(ca, 'root.key.pem'))
      cut = cutAt(cuts + 1, activate)
      if (cut) cuts += 1
      activate()
      expectActivated({ oldRootKey })
    }
    expect(cuts).toBeGreaterThan(15)
  },
)

test('a prepare cut off anywhere, done again, ends in one whole new CA', async () => {
  const whole = await createCa({ development: false, now: toEpochSeconds(systemClock()) })
  for (const incomplete of [true, false]) {
    let cuts = 0
    for (let cut = true; cut; ) {
      begin(incomplete ? prepared : made)
      if (incomplete) rmSync(join(ca, 'next', 'issuing.pem'))
      cut = cutAt(cuts + 1, () => placeNext(ca, whole))
      if (cut) cuts += 1
      if (rotationState(ca) === 'none' || (await faultOfNext(ca)) !== null) placeNext(ca, whole)
      expect(await faultOfNext(ca)).toBe(null)
      expect(readdirSync(ca).filter((name) => !['secrets.json', ...KEYS_AND_CERTIFICATES].includes(name))).toEqual([
        'next',
      ])
    }
    expect(cuts).toBeGreaterThan(5)
  }
})

test("a root's key that is of neither CA is named before anything moves", async () => {
  expect((await runMuster(['ca', 'init', '--dir', join(work, 'foreign')])).code).toBe(0)
  cpSync(join(work, 'foreign', 'root.key.pem'), join(ca, 'root.key.pem'))
  const refused = await rotate('activate', '--url', url())
  expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining('root.key.pem is not seen to be the key')])
  expect(existsSync(join(ca, 'previous'))).toBe(false)
})

test('a prepare that was cut off is not activated, and is begun anew', async () => {
  for (const name of ['next/issuing.key.pem', 'next/issuing.pem', 'secrets.json']) rmSync(join(ca, name))
  const refused = await rotate('activate', '--url', url())
  expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining('prepare` begins anew')])
  expect(read('issuing.key.pem')).toBe(readFileSync(join(made, 'issuing.key.pem'), 'utf8'))
  const anew = await rotate('prepare')
  expect([anew.code, anew.stderr]).toEqual([0, expect.stringContaining('begun anew')])
  expect(readdirSync(join(ca, 'next')).sort()).toEqual(KEYS_AND_CERTIFICATES)
  expect(secrets()).toEqual({ CA_TRUST: read('next', 'root.pem') })
  bundle = read('root.pem') + read('next', 'root.pem')
  expect((await rotate('activate', '--url', url())).code).toBe(0)
})

test('each step given again writes the same secrets again, and makes nothing new', async () => {
  const again = async (step: string, ...more: string[]) => {
    const before = secrets()
    rmSync(join(ca, 'secrets.json'))
    const { code, stdout } = await rotate(step, ...more)
    expect([code, stdout]).toEqual([0, expect.stringContaining('done already')])
    expect(secrets()).toEqual(before)
  }
  await again('prepare')
  expect((await rotate('activate', '--url', url())).code).toBe(0)
  expect(secrets()).toMatchObject({ CA_KEY: read('issuing.key.pem'), CA_TRUST: read('previous', 'root.pem') })
  await again('activate')
  expectActivated({ oldRootKey: true })
  expect((await rotate('prepare')).code).toBe(1)
  expect((await rotate('retire', '--force')).code).toBe(0)
  expect(secrets()).toEqual({ CA_PREVIOUS: '', CA_TRUST: '' })
  await again('retire')
})

test('steps in the wrong order are refused in one line', async () => {
  expect(await rotate('retire', '--force')).toMatchObject({ code: 1, stdout: '' })
  begin(made)
  for (const step of ['activate', 'retire']) {
    const { code, stderr } = await rotate(step, '--force')
    expect(code).toBe(1)
    expect(stderr).toMatch(/^muster: .*no rotation is under way.*\n$/)
  }
})

test('activate demands a look at the bundle, which must hold both roots', async () => {
  const refusal = async (...more: string[]) => {
    const { code, stderr } = await rotate('activate', ...more)
    expect(code).toBe(1)
    expect(read('issuing.pem')).toBe(readFileSync(join(made, 'issuing.pem'), 'utf8'))
    return stderr
  }
  expect(await refusal()).toContain('--url is missing')
  bundle = read('root.pem')
  expect(await refusal('--url', url())).toContain('has not the new root yet')
  bundle = read('next', 'root.pem')
  expect(await refusal('--url', url())).toContain('is it another Muster?')
  const forced = await rotate('activate', '--force')
  expect([forced.code, forced.stderr]).toEqual([0, expect.stringContaining('without a look at the bundle')])
  expectActivated({ oldRootKey: true })
})

test('secrets.json is for the owner alone, also where a file of another mode stood', async () => {
  chmodSync(join(ca, 'secrets.json'), 0o644)
  expect((await rotate('prepare')).code).toBe(0)
  expect(statSync(join(ca, 'secrets.json')).mode & 0o777).toBe(0o600)
  expect(existsSync(join(ca, 'secrets.json.tmp'))).toBe(false)
})
