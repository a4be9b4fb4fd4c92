// Tests that one request asks at a time, and that those that wait depend on nothing but its answer.
import { expect, test } from 'vitest'
import { Turns } from '../../../src/worker/keysets/turns.ts'

/** Lets everything go on that waits for nothing but a turn of the event loop. */
const turn = () => scheduler.wait(0)

test('what one request learns, all get that waited for it', async () => {
  const turns = new Turns<number>(turn)
  let asked = 0
  const answers = await Promise.all(
    Array.from({ length: 64 }, () =>
      turns.take('a', async () => {
        await turn()
        return ++asked
      }),
    ),
  )
  expect(answers.map(({ value }) => value)).toEqual(Array(64).fill(1))
  expect(answers.filter((answer) => answer.asked)).toHaveLength(1)
})

test('another subject waits for nothing', async () => {
  const turns = new Turns<string>(turn)
  void turns.take('a', () => new Promise(() => {}))
  expect(await turns.take('b', async () => 'b')).toEqual({ value: 'b', asked: true })
})

test('once there is an answer, the next request asks anew', async () => {
  const turns = new Turns<number>(turn)
  let asked = 0
  const ask = async () => ++asked
  await turns.take('a', ask)
  expect(await turns.take('a', ask)).toEqual({ value: 2, asked: true })
})

test('a request that was cancelled while it asked holds up the others for two seconds, then one of them asks', async () => {
  let waited = 0
  const turns = new Turns<string>(async (duration) => {
    waited += duration
    await turn()
  })
  void turns.take('a', () => new Promise(() => {}))
  let asked = 0
  const others = Array.from({ length: 8 }, () =>
    turns.take('a', async () => {
      asked++
      return 'answer'
    }),
  )
  expect((await Promise.all(others)).map(({ value }) => value)).toEqual(Array(8).fill('answer'))
  expect(asked).toBe(1)
  expect(waited).toBeGreaterThanOrEqual(8 * 2000)
  expect(waited).toBeLessThan(8 * 2100)
})

test('a request that fails is answered by nobody: it fails itself, and another asks at once', async () => {
  let waited = 0
  const turns = new Turns<string>(async (duration) => {
    waited += duration
    await turn()
  })
  const failing = turns.take('a', async () => {
    await turn()
    throw new Error('a bug')
  })
  const next = turns.take('a', async () => 'answer')
  await expect(failing).rejects.toThrow('a bug')
  expect(await next).toEqual({ value: 'answer', asked: true })
  expect(waited).toBeLessThan(1000)
})
