// Tests that nothing that a test starts outlives it: neither its file's end, nor the kill -9 of the process that runs it.
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, expect, test } from 'vitest'
import { isRunning, PROJECT, spawnNode } from './processes.ts'

const scratch = mkdtempSync(join(tmpdir(), 'muster-processes-'))
afterAll(() => rmSync(scratch, { recursive: true }))

const waiting = join(scratch, 'waiting.mjs')
writeFileSync(waiting, 'setInterval(() => {}, 1000)\n')
const starter = join(scratch, 'starter.mjs')
writeFileSync(
  starter,
  `import { closeAll, spawnGroup, spawnNode } from ${JSON.stringify(join(PROJECT, 'test/end-to-end/processes.ts'))}
const node = spawnNode(${JSON.stringify(waiting)}, [])
const group = spawnGroup('/bin/sh', ['-c', 'sleep 1000; true'])
console.log(JSON.stringify([node.pid, group.pid]))
process.on('SIGUSR2', () => closeAll())
setInterval(() => {}, 1000)
`,
)

test.each(['SIGUSR2', 'SIGKILL'] as const)('%s to the process of a test ends all that it started', async (signal) => {
  const test = spawnNode(starter, [])
  const [line] = await once(createInterface({ input: test.stdout as NodeJS.ReadableStream }), 'line')
  const started: number[] = JSON.parse(line)
  expect(started.every(isRunning)).toBe(true)
  test.kill(signal)
  while (started.some(isRunning)) await sleep(20)
  test.kill('SIGKILL')
})
