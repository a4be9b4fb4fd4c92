// Tests how commands open the local D1: alone, beside each other, and beside wrangler.
import { execFile } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, expect, test, vi } from 'vitest'
import { lockState, stateFolder } from '../../../src/cli/edge/state.ts'
import { withDatabases } from '../../../src/cli/store/database.ts'
import { startEdge } from '../../end-to-end/edge.ts'
import { spawnMuster } from '../../end-to-end/muster.ts'
import { PROJECT } from '../../end-to-end/processes.ts'

const scratch = mkdtempSync(join(tmpdir(), 'muster-database-'))
afterAll(() => rmSync(scratch, { recursive: true }))

test('a command makes the state that is not there yet, and wrangler and an edge, which no proxy is asked for, go on with it', async () => {
  const persistTo = join(scratch, 'state')
  const shared = ['--persist-to', persistTo, '--trust', join(PROJECT, 'trust.yaml')]
  const mint = async () => {
    const minted = await spawnMuster(['token', 'mint', '--json', '--tenant', 'acme', ...shared])
    expect(minted).toMatchObject({ code: 0, stderr: '' })
    return JSON.parse(minted.stdout).id
  }
  // At once: one has the state, and the other waits for it.
  const minted = await Promise.all([mint(), mint()])

  const wrangler = join(PROJECT, 'node_modules/wrangler/bin/wrangler.js')
  const env = { ...process.env, WRANGLER_SEND_METRICS: 'false', CLOUDFLARE_CF_FETCH_ENABLED: 'false', CI: '1' }
  const args = ['d1', 'migrations', 'list', 'DB', '--local', '--persist-to', persistTo]
  const { stdout } = await promisify(execFile)(process.execPath, [wrangler, ...args], { cwd: PROJECT, env })
  expect(stdout).toContain('No migrations to apply')

  const edge = await startEdge({ persistTo })
  const { stdout: listed } = await edge.muster('token', 'list', '--json')
  const ids = JSON.parse(listed).map(({ id }: { id: string }) => id)
  expect(ids.sort()).toEqual(minted.sort())
  const proxies = { NODE_USE_ENV_PROXY: '1', HTTP_PROXY: 'http://127.0.0.1:9', ALL_PROXY: 'socks5://127.0.0.1:9' }
  expect(await spawnMuster(['token', 'list', '--json', ...shared], { env: proxies })).toMatchObject({
    code: 0,
    stdout: listed,
  })
  await edge.stop()
})

test('a database of the state that is damaged is named in one line', async () => {
  const persistTo = join(scratch, 'damaged')
  const folder = join(persistTo, 'v3/d1/miniflare-D1DatabaseObject')
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, 'metadata.sqlite'), 'this is no database\n'.repeat(100))
  expect(await spawnMuster(['bans', '--persist-to', persistTo])).toEqual({
    code: 1,
    stdout: '',
    stderr: `muster: workerd does not start on the local state ${persistTo}: file is not a database: SQLITE_NOTADB\n`,
  })
})

test('a command waits a minute for another one that has the state, and then says so', async () => {
  const persistTo = join(scratch, 'taken')
  const unlock = lockState(stateFolder(persistTo))
  const began = Date.now()
  const clock = vi
    .spyOn(Date, 'now')
    .mockReturnValueOnce(began)
    .mockReturnValueOnce(began)
    .mockReturnValue(began + 60_000)
  const waited = withDatabases({ persistTo, trust: 'trust.yaml' }, async () => {})
  await expect(waited).rejects.toThrow(`the local state ${persistTo} is in use by another command; try again`)
  clock.mockRestore()
  unlock?.()
})
