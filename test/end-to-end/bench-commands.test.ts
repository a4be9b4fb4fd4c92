// Tests what the commands of the bench have in common, each as the process that a person starts: help and mistakes.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { wholeNumber } from '../../bench/command.ts'
import { spawnMuster } from './muster.ts'
import { PROJECT } from './processes.ts'

const { scripts }: { readonly scripts: Readonly<Record<string, string>> } = JSON.parse(
  readFileSync(join(PROJECT, 'package.json'), 'utf8'),
)
/** Each command that measures, and its file. */
const COMMANDS = Object.entries(scripts)
  .filter(([name]) => name === 'bench' || name.startsWith('bench:'))
  .map(([name, script]) => [name, join(PROJECT, script.split(' ').at(-1) ?? '')] as const)

test.each(COMMANDS)('%s shows how it is used on stdout for --help', async (name, main) => {
  const { code, stdout, stderr } = await spawnMuster(['--help'], { main })
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  expect(stdout).toContain(`Usage: npm run ${name} --`)
})

test.each([['--no-such-option'], ['--runs', '65'], ['no-such-kind']])(
  'what a command does not take is refused in one line on stderr that names it, with exit code 2: %s %s',
  async (...words) => {
    const { code, stdout, stderr } = await spawnMuster(words, { main: join(PROJECT, 'bench/run.ts') })
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(stderr).toMatch(/^bench: .+\n$/)
    expect(stderr).toContain(words[0])
  },
)

test('a number of the bench is whole, within its bounds, and written as a number is', () => {
  const read = wholeNumber(0, 64)
  expect(['0', '7', '64'].map(read)).toEqual([0, 7, 64])
  for (const text of ['', ' 7', '-1', '65', '1.5', '1e1', '0x10', '07', 'NaN', 'seven']) {
    expect(() => read(text), text).toThrow('It must be a whole number from 0 to 64.')
  }
})
