// Tests what the commands of the bench have in common, each as the process that a person starts: help, mistakes, Ctrl-C.

import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { wholeNumber } from '../../bench/command.ts'
import { type Finished, spawnMuster } from './muster.ts'
import { PROJECT, spawnNode } from './processes.ts'

const run = (file: string, ...args: string[]): Promise<Finished> =>
  spawnMuster(args, { main: join(PROJECT, 'bench', file) })

/** Each command, its file, a number that it takes, and one that is out of bounds. */
const COMMANDS = [['bench:latency', 'latency.ts', '--delay', '10001']] as const

describe.each(COMMANDS)('%s', (name, file, option, outOfBounds) => {
  test('shows its options on stdout for --help', async () => {
    const { code, stdout, stderr } = await run(file, '--help')
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(stdout).toContain(`Usage: npm run ${name} --`)
    expect(stdout).toContain(option)
  })

  test('refuses an option that it has not, and a number out of bounds, in one line that names it', async () => {
    for (const args of [['--no-such-option'], [option, outOfBounds]]) {
      const { code, stdout, stderr } = await run(file, ...args)
      expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
      expect(stderr).toMatch(new RegExp(`^${name}: .*${args[0]}.*\n$`))
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
