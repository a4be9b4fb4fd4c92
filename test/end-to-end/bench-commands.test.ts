// Tests what the commands of the bench have in common, each as the process that a person starts: help, mistakes, Ctrl-C.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { wholeNumber } from '../../bench/command.ts'
import { spawnMuster } from './muster.ts'
import { PROJECT, spawnNode } from './processes.ts'

/** Words that each command refuses: the option that is meant first, if any. */
const WRONG: Readonly<Record<string, readonly (readonly string[])[]>> = {
  bench: [['--runs', '65'], ['no-such-kind']],
  'bench:peers': [['--requests', '0'], ['no-such-peer']],
  'bench:latency': [['--delay', '10001']],
  'bench:d1': [['--enrollments', '0']],
  'bench:startup': [['--runs', '1.5']],
  'bench:memory': [['--first', '50000']],
  'bench:fleet': [['--runners', '999']],
  'bench:tunnels': [['many']],
}

const { scripts }: { readonly scripts: Readonly<Record<string, string>> } = JSON.parse(
  readFileSync(join(PROJECT, 'package.json'), 'utf8'),
)
/** Each command that measures, and its file. */
const COMMANDS = Object.entries(scripts)
  .filter(([name]) => name === 'bench' || name.startsWith('bench:'))
  .map(([name, script]) => [name, join(PROJECT, script.split(' ').at(-1) ?? '')] as const)

describe.each(COMMANDS)('%s', (name, main) => {
  test('shows how it is used on stdout for --help', async () => {
    const { code, stdout, stderr } = await spawnMuster(['--help'], { main })
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(stdout).toContain(`Usage: npm run ${name} --`)
  })

  test('refuses what it does not take in one line on stderr that names it, with exit code 2', async () => {
    const wrong = [['--no-such-option'], ...(WRONG[name] ?? [])]
    const refused = await Promise.all(wrong.map((words) => spawnMuster(words, { main })))
    for (const [i, { code, stdout, stderr }] of refused.entries()) {
      expect({ words: wrong[i], code, stdout }).toEqual({ words: wrong[i], code: 2, stdout: '' })
      expect(stderr).toMatch(/^.+\n$/)
      expect(stderr.startsWith(`${name}: `), stderr).toBe(true)
      expect(stderr).toContain(wrong[i]?.[0])
    }
  })
})

test('a number of the bench is whole, within its bounds, and written as a number is', () => {
  const read = wholeNumber(0, 64)
  expect(['0', '7', '64'].map(read)).toEqual([0, 7, 64])
  for (const text of ['', ' 7', '-1', '65', '1.5', '1e1', '0x10', '07', 'NaN', 'seven']) {
    expect(() => read(text), text).toThrow('It must be a whole number from 0 to 64.')
  }
})

test('a command that is interrupted says so and ends with exit code 130', async () => {
  const child = spawnNode(join(PROJECT, 'bench/latency.ts'), ['--delay', '1', '--requests', '1'], { stderr: 'pipe' })
  const ended = new Promise<number | null>((resolve) => child.on('close', resolve))
  let said = ''
  child.stderr?.on('data', (chunk) => {
    said += chunk
    if (said === 'measured: enroll\n') child.kill('SIGINT')
  })
  expect(await ended).toBe(130)
  expect(said).toMatch(/bench:latency: interrupted\n$/)
})
