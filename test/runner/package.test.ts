// Tests the npm package: it runs without the checkout, in little memory, and exports the runner as a library.

import { readdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { EXIT } from '../../src/runner/environment/exit.ts'
import { buildPackage, memoryOfRunner } from '../end-to-end/packed.ts'
import { PROJECT, spawnNode } from '../end-to-end/processes.ts'
import { FakeControlPlane } from '../fakes/control-plane.ts'

const MEGABYTE = 1000 * 1000
const folder = buildPackage()
const built = join(folder, 'dist')
afterAll(() => rmSync(folder, { recursive: true }))

describe('the package', () => {
  let plane: FakeControlPlane
  beforeAll(async () => {
    plane = await FakeControlPlane.start()
  })
  afterAll(async () => {
    await plane.stop()
  })

  test('names what it exports, and exports what it names', () => {
    const { exports, bin, files } = JSON.parse(readFileSync(join(PROJECT, 'package.json'), 'utf8'))
    const stands = (path: string) => readFileSync(join(built, path.replace(/^(\.\/)?dist\//, '')), 'utf8')
    expect(stands(exports['./runner'].default)).toContain('export class Runner')
    expect(stands(exports['./runner'].types)).toContain('export declare class Runner')
    expect(stands(bin.muster)).toMatch(/^#!\/usr\/bin\/env node\n/)
    expect(files).toEqual(['dist'])
  })

  test('runs a runner to ready, which says its version', async () => {
    const runner = spawnNode(join(built, 'cli/main.js'), ['runner'], {
      stderr: 'inherit',
      env: { RUNNER_ENROLL_URL: plane.url, RUNNER_BOOTSTRAP_TOKEN: 'muster_bt_t' },
    })
    try {
      let text = ''
      for await (const chunk of runner.stdout ?? []) {
        text += chunk
        if (text.includes('"state":"ready"')) break
      }
      expect(text).toContain('"state":"ready"')
      const { version } = JSON.parse(readFileSync(join(PROJECT, 'package.json'), 'utf8'))
      expect(JSON.parse(plane.hellos.at(-1) ?? '')).toMatchObject({ agent: `muster/${version}` })
    } finally {
      runner.kill('SIGKILL')
    }
  })

  test.runIf(process.platform === 'linux')('its runner takes less than 70 MB, renewals over TLS included', async () => {
    const { ready, renewed } = await memoryOfRunner(join(built, 'cli/main.js'))
    expect(ready).toBeLessThan(70 * MEGABYTE)
    expect(renewed).toBeLessThan(70 * MEGABYTE)
  })

  test.each([
    ['runner', 78],
    ['events', 1],
  ])('names the Node that it needs where %s is started with an older one', async (command, code) => {
    const older = "Object.defineProperty(process,'versions',{value:{node:'20.20.2'}})"
    const child = spawnNode(join(built, 'cli/main.js'), [command], {
      stderr: 'pipe',
      env: { NODE_OPTIONS: `--import=data:text/javascript,${older}` },
    })
    let said = ''
    child.stderr?.on('data', (chunk) => {
      said += chunk
    })
    const ended = await new Promise((resolve) => child.on('close', resolve))
    const { engines } = JSON.parse(readFileSync(join(PROJECT, 'package.json'), 'utf8'))
    const needed = engines.node.slice('>='.length)
    expect({ ended, said }).toEqual({
      ended: code,
      said: `muster: ${process.execPath} is Node 20.20.2; install Node ${needed} or newer, and put it first on the PATH\n`,
    })
  })

  test('exports the runner as a library', async () => {
    const { Runner } = await import(join(built, 'runner/index.js'))
    const runner = new Runner({ env: { RUNNER_ENROLL_URL: plane.url, RUNNER_BOOTSTRAP_TOKEN: 'muster_bt_t' } })
    await runner.start()
    expect(runner.identity.tenant).toBe('acme')
    await runner.stop()
  })
})

/** Every file below a folder of the project, from its top. */
const filesBelow = (folder: string): string[] =>
  readdirSync(join(PROJECT, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => join(parentPath, name))

const textOf = (path: string): string => readFileSync(join(PROJECT, path), 'utf8')

test('nothing sends anybody to a registry, where the name is a stranger’s', () => {
  expect(JSON.parse(textOf('package.json')).private).toBe(true)
  const texts = [join(PROJECT, 'README.md'), ...['docs', 'deploy', 'src', 'migrations'].flatMap(filesBelow)]
  const told = texts.flatMap((path) =>
    readFileSync(path, 'utf8')
      .split('\n')
      .filter((line) =>
        /npx muster|npm exec muster|(npm|pnpm|yarn)\b.* (i|add|install)\b.* muster(@|`|;|\s|$)/.test(line),
      )
      .map((line) => `${path}: ${line}`),
  )
  expect(told).toEqual([])
})

test('the unit starts the runner again by its exit codes, and holds no secret', () => {
  const unit = textOf('deploy/muster-runner.service')
  const valuesOf = (key: string) => [...unit.matchAll(new RegExp(`^${key}=(.*)$`, 'gm'))].map(([, value]) => value)
  expect(valuesOf('Restart')).toEqual(['on-failure'])
  expect(valuesOf('RestartPreventExitStatus')).toEqual([`${EXIT.refused} ${EXIT.config}`])
  for (const code of Object.values(EXIT)) expect(unit).toMatch(new RegExp(`^# +${code}  `, 'm'))
  expect(valuesOf('Environment')).toEqual(['RUNNER_IDENTITY_DIR=%S/muster-runner'])
  // Where the steps at its top install the package.
  const { bin } = JSON.parse(textOf('package.json'))
  expect(unit).toContain('--prefix /opt/muster ./muster-<version>.tgz')
  expect(valuesOf('ExecStart')).toEqual([`/opt/muster/bin/${Object.keys(bin)[0]} runner`])
})
