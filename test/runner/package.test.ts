// Tests the npm package: it runs without the checkout, in little memory, and exports the runner as a library.

import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { PROJECT, spawnNode } from '../end-to-end/processes.ts'
import { FakeControlPlane } from '../fakes/control-plane.ts'

const MEBIBYTE = 1024 * 1024
/** Inside the project, so that dependencies are found; ignored by git. */
mkdirSync(join(PROJECT, '.muster'), { recursive: true })
const built = mkdtempSync(join(PROJECT, '.muster/package-'))

describe('the package', () => {
  let plane: FakeControlPlane
  beforeAll(async () => {
    const { scripts } = JSON.parse(readFileSync(join(PROJECT, 'package.json'), 'utf8'))
    const build = scripts.build.replace('rm -rf dist && ', '').replace('--outDir dist', `--outDir ${built}`)
    execFileSync('sh', ['-c', build], {
      cwd: PROJECT,
      env: { ...process.env, PATH: `node_modules/.bin:${process.env.PATH}` },
    })
    plane = await FakeControlPlane.start()
  })
  afterAll(async () => {
    await plane.stop()
    rmSync(built, { recursive: true })
  })

  test('names what it exports, and exports what it names', () => {
    const { exports, bin, files } = JSON.parse(readFileSync(join(PROJECT, 'package.json'), 'utf8'))
    const stands = (path: string) => readFileSync(join(built, path.replace(/^(\.\/)?dist\//, '')), 'utf8')
    expect(stands(exports['./runner'].default)).toContain('export class Runner')
    expect(stands(exports['./runner'].types)).toContain('export declare class Runner')
    expect(stands(bin.muster)).toMatch(/^#!\/usr\/bin\/env node\n/)
    expect(files).toEqual(['dist'])
  })

  test('runs a runner to ready in under 90 MiB', async () => {
    const runner = spawnNode(join(built, 'cli/main.js'), ['runner'], {
      stderr: 'inherit',
      env: { RUNNER_ENROLL_URL: plane.url, RUNNER_BOOTSTRAP_TOKEN: 't' },
    })
    try {
      let text = ''
      for await (const chunk of runner.stdout ?? []) {
        text += chunk
        if (text.includes('"state":"ready"')) break
      }
      expect(text).toContain('"state":"ready"')
      if (process.platform !== 'linux') return
      const status = readFileSync(`/proc/${runner.pid}/status`, 'utf8')
      expect(Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1]) * 1024).toBeLessThan(90 * MEBIBYTE)
    } finally {
      runner.kill('SIGKILL')
    }
  })

  test('exports the runner as a library', async () => {
    const { Runner } = await import(join(built, 'runner/index.js'))
    const runner = new Runner({ env: { RUNNER_ENROLL_URL: plane.url, RUNNER_BOOTSTRAP_TOKEN: 't' } })
    await runner.start()
    expect(runner.identity.tenant).toBe('acme')
    await runner.stop()
  })
})
