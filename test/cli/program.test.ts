// Tests what every command has in common: its help, and how it refuses wrong arguments.
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import manifest from '../../package.json' with { type: 'json' }
import { mintToken } from '../../src/protocol/tokens.ts'
import { MAIN, runMuster, spawnMuster } from '../end-to-end/muster.ts'
import { PROJECT } from '../end-to-end/processes.ts'

const scratch = mkdtempSync(join(tmpdir(), 'muster-refusals-'))
const path = (name: string): string => join(scratch, name)
afterAll(() => rmSync(scratch, { recursive: true }))
writeFileSync(path('file'), '')
mkdirSync(path('taken'))
writeFileSync(path('taken/v3'), '')
mkdirSync(path('locked/muster'), { recursive: true })
writeFileSync(path('locked/muster/lock.sqlite'), 'this is no database\n'.repeat(100))

describe.concurrent('is refused in one line', () => {
  test.each([
    [['doctor'], "unknown command 'doctor'"],
    [['doctor', '--help'], "unknown command 'doctor'"],
    [['help', 'doctor'], "unknown command 'doctor'"],
    [['token', 'mnt', '--help'], "unknown command 'mnt'"],
    [['a\u001b[31mb\nc'], "unknown command 'a\\u001b[31mb c'"],
    [['events', '--foo'], "unknown option '--foo'"],
    [['ban', '--tenan', 'x'], "unknown option '--tenan' (Did you mean --tenant?)"],
    [['events', 'x'], 'x'],
    [['explain'], "missing required argument 'requestId'"],
    [['ca', 'issue'], "required option '--out <dir>' not specified"],
    [['events', '--limit'], "option '--limit <n>' argument missing"],
    // An option that a group does not have must not be lost on the way to its command.
    [['token', '--remote', 'list'], "unknown option '--remote'"],
  ])('usage: muster %j', async (args, message) => {
    const { code, stdout, stderr } = await runMuster(args)
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
    expect(stderr).toMatch(/^muster: [^\n]+ \(--help says what there is\)\n$/)
    expect(stderr).toContain(message)
  })

  test.each([
    [['token', 'list', '--persist-to', path('file')], path('file')],
    [['token', 'list', '--persist-to', path('file/x/y')], path('file/x/y')],
    [['dev', '--port', '0', '--tls-port', '0', '--persist-to', '/dev/null/x'], '/dev/null/x'],
    [['token', 'list', '--persist-to', '/proc/x'], '/proc/x'],
    [['token', 'list', '--persist-to', ''], '""'],
    [['token', 'list', '--persist-to', path('taken')], path('taken')],
    [['token', 'list', '--persist-to', path('locked')], path('locked')],
    [['ca', 'init', '--dir', '/proc/x/y'], '/proc/x/y'],
    [['ca', 'init', '--dir', ''], '""'],
    [['ca', 'show', '--dir', path('file')], path('file')],
  ])('a folder of no use: muster %j', async (args, value) => {
    // `dev` takes the signals of the process that it is in.
    const { code, stdout, stderr } = await (args[0] === 'dev' ? spawnMuster : runMuster)(args)
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
    expect(stderr).toMatch(/^muster: [^\n]+\n$/)
    expect(stderr).toContain(value)
  })
})

test.each([
  (token: string) => ['token', 'revoke', token],
  (token: string) => ['token', 'mint', '--tenant', 'default', '--runner-id', token],
  (token: string) => ['token', 'mint', '--tenant', token],
  (token: string) => ['token', 'mint', '--tenant', 'acme', '--ttl', token],
  (token: string) => ['explain', token],
  (token: string) => ['events', '--limit', token],
  (token: string) => ['ban', '--token', token],
  (token: string) => [token],
  (token: string) => ['token', 'list', token],
])('a token in the place of something else is refused and not shown: %#', async (args) => {
  const token = mintToken('bootstrap')
  const trust = path('trust.yaml')
  writeFileSync(trust, 'tenants: [{slug: acme}]\n')
  const { code, stdout, stderr } = await runMuster([...args(token), '--trust', trust, '--persist-to', path('state')])
  expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
  expect(stderr).toMatch(/^muster: [^\n]+\n$/)
  expect(stderr).not.toContain(token.slice(-20))
})

describe.concurrent('as a process', () => {
  test.each([
    'dev',
    'ca init',
    'ca issue',
    'ca rotate prepare',
    'ca show',
    'trust check',
    'token mint',
    'ban',
    'unban',
    'bans',
    'drain',
    'events',
    'explain',
  ])('muster %s is the same', async (name) => {
    const args = [...name.split(' '), '--help']
    expect(await spawnMuster(args)).toEqual(await runMuster(args))
  })
})

test('a closed pipe is no error, a full disk is', () => {
  const schema = `"${process.execPath}" src/cli/main.ts trust schema`
  const run = (line: string) => spawnSync('/bin/sh', ['-c', line], { cwd: PROJECT, encoding: 'utf8' })
  expect(run(`{ ${schema}; echo $? >&2; } | true`).stderr).toBe('0\n')
  if (!existsSync('/dev/full')) return
  expect(run(`${schema} > /dev/full`)).toMatchObject({
    status: 1,
    stderr: 'muster: the output cannot be written: ENOSPC\n',
  })
})

test('a file that the disk has no room for is named in one line', () => {
  // Where there is a limit, a write fails as on a full disk.
  const line = `ulimit -f 0; exec "${process.execPath}" "${MAIN}" trust build --trust trust.yaml`
  writeFileSync(path('trust.yaml'), 'tenants: [{slug: acme}]\n')
  const { status, stderr } = spawnSync('/bin/sh', ['-c', line], { cwd: scratch, encoding: 'utf8' })
  expect({ status, stderr }).toEqual({
    status: 1,
    stderr: expect.stringMatching(/^muster: \.muster\/trust\.json\S+: write is refused \(EFBIG\)\n$/),
  })
})

test('the version is the package’s', async () => {
  expect(await spawnMuster(['--version'])).toEqual({ code: 0, stdout: `${manifest.version}\n`, stderr: '' })
})

test.each([
  'dev',
  'ca init',
  'ca show',
  'ca issue',
  'ca rotate prepare',
  'ca rotate activate',
  'ca rotate retire',
  'trust check',
  'trust build',
  'trust schema',
  'token mint',
  'token list',
  'token revoke',
  'ban',
  'unban',
  'bans',
  'drain',
  'events',
  'explain',
])('help of %s has its own options, those of every command and an example, in this order', async (name) => {
  const { code, stdout } = await runMuster([...name.split(' '), '--help'])
  expect(code).toBe(0)
  const blocks = stdout.match(/^(?:Options|Options of every command|Example)(?=s?:$)/gm)
  expect(blocks).toEqual(
    ['Options', 'Options of every command', 'Example'].filter(
      (block) => name !== 'trust schema' || block !== 'Options of every command',
    ),
  )
  expect(stdout.slice(stdout.indexOf('Example'))).toContain(`  muster ${name}`)
  const [, mine = ''] = stdout.split('Options:\n')
  const [block = ''] = mine.split('\n\n')
  expect(block).toContain('--help')
  expect(block).not.toMatch(/--(?:json|trust|persist-to|remote|env) /)
})

test.each(['dev', 'ca init', 'ca show', 'trust schema'])(
  'help of %s offers no --remote, which has no meaning there and is accepted all the same',
  async (name) => {
    const { code, stdout } = await runMuster([...name.split(' '), '--remote', '--help'])
    expect(code).toBe(0)
    expect(stdout).not.toContain('--remote')
  },
)
