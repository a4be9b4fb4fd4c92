// Tests the cron jobs of the Worker, and that wrangler.toml schedules all of them.
import { expect, test } from 'vitest'
import { EVERY_HOUR } from '../../../src/worker/enrollment/sweep.ts'
import wrangler from '../../../wrangler.toml?raw'

test('the hourly job is one of the crons that wrangler.toml names, and each minute is the other', () => {
  const crons: unknown = JSON.parse(/^crons = (.*)$/m.exec(wrangler)?.[1] ?? 'null')
  expect(crons).toEqual(['* * * * *', EVERY_HOUR])
})
