// Tests `muster dev` as a process: its first line, its end, its state.
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, describe, expect, test, vi } from 'vitest'
import { developmentCa } from '../../src/cli/edge/certificates.ts'
import { stateFolder } from '../../src/cli/edge/state.ts'
import { type EdgeProcess, type RunningEdge, startEdge, startEdgeProcess } from '../end-to-end/edge.ts'
import { MAIN, spawnMuster } from '../end-to-end/muster.ts'
import { childrenOf, isRunning, spawnNode } from '../end-to-end/processes.ts'

const scratch = mkdtempSync(join(tmpdir(), 'muster-process-'))
afterAll(() => rmSync(scratch, { recursive: true }))

async function tokensOf(edge: RunningEdge): Promise<string[]> {
  const { stdout } = await edge.muster('token', 'list', '--json')
  return JSON.parse(stdout).map(({ id }: { id: string }) => id)
}

async function mint(edge: RunningEdge): Promise<string> {
  const minted = await edge.muster('token', 'mint', '--tenant', 'acme', '--json')
  expect(minted).toMatchObject({ code: 0, stderr: '' })
  return JSON.parse(minted.stdout).id
}

test('tokens persist after SIGTERM and after kill -9, and no process is left', async () => {
  const persistTo = join(scratch, 'state')
  const first = await startEdgeProcess({ persistTo })
  const id = await mint(first)
  const children = childrenOf(first.pid)
  expect(children.length).toBeGreaterThan(0)
  expect(await first.stop()).toBe(0)
  expect(children.filter(isRunning)).toEqual([])

  const second = await startEdgeProcess({ persistTo })
  const orphans = childrenOf(second.pid)
  await second.kill9()
  expect(orphans.length).toBeGreaterThan(0)
  while (orphans.some(isRunning)) await sleep(20)

  const third = await startEdge({ persistTo })
  expect(await tokensOf(third)).toEqual([id])
  await third.stop()
})

describe('an edge that runs', () => {
  let edge: EdgeProcess
  test('says in its first line where it is, and then logs a JSON object a line', async () => {
    edge = await startEdgeProcess({ vars: { CA_KEY: 'not\na key' } })
    const { url, tlsUrl, caFile, lines } = edge
    expect(url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/)
    expect(tlsUrl).toMatch(/^https:\/\/127\.0\.0\.1:\d+$/)
    expect(statSync(caFile).isFile()).toBe(true)
    // The given key took the place of the development CA's.
    expect((await fetch(`${url}/readyz`)).status).toBe(503)
    await fetch(`${url}/api/enroll`, { method: 'POST', body: '{}', headers: { 'content-type': 'application/json' } })
    while (lines.length === 0) await sleep(10)
    for (const line of lines) expect(JSON.parse(line)).toMatchObject({ level: expect.any(String) })
  })

  test('shares its database with commands that come all at once', async () => {
    const args = ['token', 'mint', '--tenant', 'acme', '--json', '--persist-to', edge.persistTo]
    const minted = await Promise.all(Array.from({ length: 4 }, () => spawnMuster(args)))
    const ids = minted.map(({ stdout }) => JSON.parse(stdout).id)
    expect((await tokensOf(edge)).sort()).toEqual(ids.sort())
  })

  test('goes on, for commands too, after its workerd was killed', async () => {
    const before = await tokensOf(edge)
    const workerd = Number(readFileSync(join(edge.persistTo, 'muster', `workerd-${edge.pid}.pid`), 'utf8'))
    process.kill(workerd, 'SIGKILL')
    while (isRunning(workerd)) await sleep(20)
    expect(await tokensOf(edge)).toEqual(before)
  })

  test('has no other environment than those of wrangler.toml', async () => {
    expect(await edge.muster('token', 'list', '--env', 'nope')).toEqual({
      code: 1,
      stdout: '',
      stderr: 'muster: wrangler.toml: there is no environment "nope"\n',
    })
  })

  test('keeps its keys and its state readable for its owner alone', () => {
    for (const file of ['ca.key.pem', 'tls.key.pem', 'edge.json']) {
      expect(statSync(join(edge.persistTo, 'muster', file)).mode & 0o077).toBe(0)
    }
  })

  test('refuses a second one on its state', async () => {
    const { code, stderr } = await spawnMuster([
      'dev',
      '--port',
      '0',
      '--tls-port',
      '0',
      '--persist-to',
      edge.persistTo,
    ])
    expect(code).toBe(1)
    expect(stderr).toMatch(/^muster: another muster dev runs on \S+; [^\n]+\n$/)
    await edge.stop()
  })
})

test('a development CA whose key and certificate do not match is replaced, with a message', async () => {
  const state = stateFolder(join(scratch, 'damaged'))
  const said = vi.spyOn(process.stderr, 'write').mockReturnValue(true)
  const first = await developmentCa(state)
  expect(await developmentCa(state)).toEqual(first)
  expect(said).not.toHaveBeenCalled()
  writeFileSync(join(state.own, 'ca.key.pem'), 'garbage')
  expect(await developmentCa(state)).not.toEqual(first)
  expect(said.mock.calls).toEqual([[expect.stringMatching(/^muster: \S+ca\.pem is damaged [^\n]+: made anew\n$/)]])
  said.mockRestore()
})

test('a signal ends the start at once, with nothing left', async () => {
  const persistTo = join(scratch, 'early')
  const start = spawnNode(MAIN, ['dev', '--port', '0', '--tls-port', '0', '--persist-to', persistTo])
  let output = ''
  start.stdout?.on('data', (chunk) => {
    output += chunk
  })
  const exited = new Promise((resolve) => start.on('close', resolve))
  // The start is under way, and wrangler.toml is being read.
  while (childrenOf(start.pid as number).length === 0) await sleep(20)
  const children = childrenOf(start.pid as number)
  start.kill('SIGTERM')
  expect({ code: await exited, output }).toEqual({ code: 0, output: '' })
  while (children.some(isRunning)) await sleep(20)
  const next = await startEdge({ persistTo })
  await next.stop()
})

test('the demonstration boots a runner that gets ready, and ends it with itself', async () => {
  const edge = await startEdgeProcess({}, ['--demo'])
  while (!edge.lines.some((line) => JSON.parse(line).state === 'ready')) await sleep(20)
  const children = childrenOf(edge.pid)
  expect(await edge.stop()).toBe(0)
  expect(children.filter(isRunning)).toEqual([])
})
