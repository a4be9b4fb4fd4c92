// Tests what the commands do where Muster was installed from its package, without the Worker's sources.
import { cpSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { runMuster } from '../end-to-end/muster.ts'
import { PROJECT } from '../end-to-end/processes.ts'

const installed = mkdtempSync(join(tmpdir(), 'muster-installed-'))
const main = join(installed, 'dist/cli/main.ts')
const muster = (...words: string[]) => runMuster(words, { main, cwd: installed })
beforeAll(async () => {
  cpSync(join(PROJECT, 'src'), join(installed, 'dist'), { recursive: true })
  for (const name of ['package.json', 'tsconfig.json', 'trust.yaml']) cpSync(join(PROJECT, name), join(installed, name))
  symlinkSync(join(PROJECT, 'node_modules'), join(installed, 'node_modules'))
  expect(await muster('ca', 'init', '--dir', 'ca')).toMatchObject({ code: 0, stderr: '' })
  expect(await muster('ca', 'rotate', 'prepare', '--dir', 'ca')).toMatchObject({ code: 0, stderr: '' })
  expect(await muster('ca', 'rotate', 'activate', '--dir', 'ca', '--force')).toMatchObject({ code: 0 })
})
afterAll(() => rmSync(installed, { recursive: true }))

const ID = '0192f3c4-5678-7abc-8def-0123456789ab'

test.each([
  'dev',
  'token mint --tenant acme',
  'token list',
  `token revoke ${ID}`,
  'ban --tenant acme',
  'unban --tenant acme',
  'bans',
  'drain --tenant acme',
  'events',
  `explain ${ID}`,
  'ca issue --dir ca --out out --tenant acme',
  'ca rotate retire --dir ca',
])('muster %s says in one line that it needs a checkout', async (words) => {
  for (const more of [[], ['--remote'], ['--env', 'staging'], ['--remote', '--env', 'staging', '--json']]) {
    const { code, stdout, stderr } = await muster(...words.split(' '), ...more)
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
    expect(stderr).toMatch(/^muster: (?:muster dev|a command on the database) needs a checkout [^\n]+\n$/)
  }
})

test.each(['token mint --tenant acme', 'ca issue --dir ca --out out --tenant acme'])(
  'muster %s says so before it asks for a trust file',
  async (words) => {
    expect((await muster(...words.split(' '), '--trust', 'missing.yaml')).stderr).toContain('needs a checkout')
  },
)

test.each(['trust check', 'trust build', 'trust schema', 'ca show --dir ca', '--version'])(
  'muster %s needs none',
  async (words) => {
    expect(await muster(...words.split(' '))).toMatchObject({ code: 0, stderr: '' })
  },
)
