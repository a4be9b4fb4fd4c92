// Tests when the local edge runs a cron job.
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { runCrons } from '../../../src/cli/edge/crons.ts'

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date'] })
})
afterEach(() => {
  vi.useRealTimers()
})

/** Whether a job that waits runs when this minute of 29 November 2026, a Sunday, begins. */
function runsAt(minute: string, cron: string): boolean {
  const at = Date.parse(`2026-11-29T${minute}:00Z`)
  vi.setSystemTime(at - 1500)
  const ran: string[] = []
  const end = runCrons([cron], async (due) => {
    ran.push(due)
  })
  vi.advanceTimersByTime(1000)
  expect(ran).toEqual([])
  vi.advanceTimersByTime(1000)
  end()
  vi.advanceTimersByTime(120_000)
  return ran.length > 0
}

test.each([
  ['03:07', '* * * * *', true],
  ['03:00', '0 * * * *', true],
  ['03:01', '0 * * * *', false],
  ['03:45', '*/15 2-4 * * *', true],
  ['05:45', '*/15 2-4 * * *', false],
  ['03:07', '5,7 3 29 11 *', true],
  ['03:07', '5,7 3 28 11 *', false],
  // Sunday is 1 at Cloudflare, and names count.
  ['03:07', '5,7 3 * 11 1', true],
  ['03:07', '5,7 3 * 11 2', false],
  ['03:07', '7 3 * * SUN', true],
  ['03:07', '7 3 * * 1L', true],
  // Either day is enough.
  ['03:07', '7 3 29 * 2', true],
  ['03:07', '7 3 28 * 1', true],
  ['03:07', '7 3 28 * 2', false],
])('at %s %s is due: %s', (minute, cron, due) => {
  expect(runsAt(minute, cron)).toBe(due)
})

test('a job that fails is run again', async () => {
  vi.setSystemTime(Date.parse('2026-11-29T03:00:30Z'))
  let runs = 0
  const end = runCrons(['* * * * *'], async () => {
    runs += 1
    throw new Error('no')
  })
  await vi.advanceTimersByTimeAsync(180_000)
  end()
  expect(runs).toBe(3)
})
