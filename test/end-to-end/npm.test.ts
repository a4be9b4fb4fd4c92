// Tests that an edge started through npm ends with all that it started, whichever process gets the signal.
import type { ChildProcess } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, expect, test } from 'vitest'
import { MAIN } from './muster.ts'
import { isRunning, spawnGroup, treeOf } from './processes.ts'

const scratch = mkdtempSync(join(tmpdir(), 'muster-npm-'))
afterAll(() => rmSync(scratch, { recursive: true, force: true }))

const DEV = ['run', '-s', 'muster', '--', 'dev']
const START = ['-s', 'start', '--']
const options = (name: string): string[] => ['--json', '--port', '0', '--tls-port', '0', '--persist-to', name]

/** The ports that it serves, once a line of its log fits. */
async function ready(child: ChildProcess, fits: (line: Record<string, unknown>) => boolean): Promise<number[]> {
  const ports: number[] = []
  for await (const text of createInterface({ input: child.stdout as NodeJS.ReadableStream })) {
    const line = JSON.parse(text)
    if (line.event === 'ready') ports.push(...[line.url, line.tlsUrl].map((url) => Number(new URL(url).port)))
    if (fits(line)) break
  }
  child.stdout?.resume()
  return ports
}

const isServed = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1')
    socket.on('connect', () => resolve(true)).on('error', () => resolve(false))
    socket.on('connect', () => socket.destroy())
  })

/** `tree`: npm, what it started, and all below, from the top. */
const TO_NPM = ([npm = 0]: readonly number[]) => npm
const TO_GROUP = ([npm = 0]: readonly number[]) => -npm

test.concurrent.each([
  ['SIGKILL', 'npm', DEV, TO_NPM],
  ['SIGHUP', 'all, as a terminal that closes does', DEV, TO_GROUP],
  ['SIGTERM', 'the npm of npm start', START, TO_NPM],
  ['SIGINT', 'all of npm start, as Ctrl-C does', START, TO_GROUP],
] as const)('%s to %s ends everything', async (signal, _to, args, target) => {
  const npm = spawnGroup('npm', [...args, ...options(mkdtempSync(join(scratch, 'state-')))])
  const ports = await ready(npm, ({ event, state }) => (args === START ? state === 'ready' : event === 'ready'))
  const tree = treeOf(npm.pid as number)
  // npm, the edge without a shell between, workerd and its watchdog.
  expect(tree.length).toBeGreaterThanOrEqual(4)
  process.kill(target(tree), signal)
  while (tree.some(isRunning)) await sleep(50)
  expect(await Promise.all(ports.map(isServed))).toEqual([false, false])
})

test.concurrent('SIGTERM to a shell ends the edge that it waits for, and none that it left in the background', async () => {
  const dev = () => `npm run -s muster -- dev ${options(mkdtempSync(join(scratch, 'state-'))).join(' ')}`
  const shell = spawnGroup('/bin/sh', ['-c', `${dev()} & echo "{\\"left\\":$!}"; ${dev()}; true`])
  let left = 0
  let starting = 2
  await ready(shell, (line) => {
    if (typeof line.left === 'number') left = line.left
    return line.event === 'ready' && --starting === 0
  })
  const background = treeOf(left)
  const foreground = treeOf(shell.pid as number).filter((pid) => !background.includes(pid))
  shell.kill('SIGTERM')
  while (foreground.some(isRunning)) await sleep(50)
  expect(background.every(isRunning)).toBe(true)
  // npm is watched in the background, too.
  process.kill(left, 'SIGKILL')
  while (background.some(isRunning)) await sleep(50)
})

test.concurrent('an edge whose npm is gone before it looks does not start', async () => {
  const script = `MUSTER_STARTED_BY=$1 exec "$0" ${MAIN} dev ${options(mkdtempSync(join(scratch, 'state-'))).join(' ')}`
  // The process that it names is not its parent.
  const edge = spawnGroup('/bin/sh', ['-c', script, process.execPath, '1'])
  let said = ''
  edge.stdout?.on('data', (chunk) => {
    said += chunk
  })
  expect(await new Promise((resolve) => edge.on('close', resolve))).toBe(0)
  expect(said).toBe('')
})
