// `npm run bench:memory`: what memory workerd holds after many enrollments, and while many runners renew.

import { setTimeout as sleep } from 'node:timers/promises'
import type { Command } from 'commander'
import { stopSignal } from '../src/cli/edge/stop-signal.ts'
import { table } from '../src/cli/operator/table.ts'
import { benchCommand, runCommand, wholeNumber } from './command.ts'
import { residentMemory, untilIdle } from './cpu.ts'
import { enrollByToken } from './kinds/enrollments.ts'
import { coldRenewals } from './kinds/renewals.ts'
import { send } from './load.ts'
import { machine } from './report.ts'
import { type RunningSite, withSite } from './site.ts'

const SENT = { connections: 16, status: 200 }
/** Requests that are prepared at a time. */
const BATCH = 1000
/** Milliseconds; workerd drops an object that nobody asks after 10 s. */
const OBJECTS_LEAVE = 15_000

interface Options {
  readonly json?: true
  readonly count: number
  readonly first: number
  readonly renewing: number
}

const MOST = 10_000_000
const ending = stopSignal()
await runCommand(
  benchCommand(
    'bench:memory',
    'Measures what memory workerd holds after many enrollments, and while many runners renew.',
  )
    .option('--json', 'print one object in one line')
    .option('--count <n>', 'enrollments in all', wholeNumber(2, MOST), 50_000)
    .option('--first <n>', 'enrollments that these are compared with', wholeNumber(1, MOST), 2000)
    .option(
      '--renewing <n>',
      'runners that renew twice, once their objects have left the memory',
      wholeNumber(0, MOST),
      10_000,
    )
    .action(measure),
  ending,
)

async function measure(options: Options, command: Command): Promise<void> {
  const { json, count, first, renewing } = options
  if (first >= count) command.error(`--first ${first} must be less than --count ${count}`)
  const found: { readonly after: string; readonly residentMiB: number }[] = []
  const enrollmentRatio = await withSite({ ending }, async (site) => {
    const note = async (after: string): Promise<number> => {
      await untilIdle(site.pid)
      const residentMiB = residentMemory(site.pid)
      found.push({ after, residentMiB })
      if (!json) console.error(`${String(residentMiB).padStart(6)} MiB after ${after}`)
      return residentMiB
    }
    await note('the start')
    await enroll(site, first)
    const early = await note(`${first} enrollments`)
    await enroll(site, count - first)
    const late = await note(`${count} enrollments`)
    if (renewing > 0) await renew(site, renewing, note)
    return Number((late / early).toFixed(2))
  })
  if (json) {
    console.log(JSON.stringify({ ...machine(), enrollmentRatio, found }))
    return
  }
  const rows = found.map(({ after, residentMiB }) => [after, String(residentMiB)])
  console.log(table(['AFTER', 'workerd MiB'], rows))
  console.log(`\n${count} enrollments take ${enrollmentRatio} times the memory of ${first} (goal: at most 1.3)`)
}

async function enroll(at: RunningSite, more: number): Promise<void> {
  for (let left = more; left > 0; left -= BATCH) {
    ending.throwIfAborted()
    await send(at.url, await enrollByToken.prepare(at, Math.min(left, BATCH)), SENT)
  }
}

/** The first renewal of each makes its object; the second one loads it. */
async function renew(at: RunningSite, renewing: number, note: (after: string) => Promise<number>): Promise<void> {
  const runners = coldRenewals()
  await runners.begin?.(at, renewing)
  await note(`the first renewals of ${renewing} runners`)
  await sleep(OBJECTS_LEAVE, undefined, { signal: ending })
  await note('their objects have left the memory')
  for (let left = renewing; left > 0; left -= BATCH) {
    await send(at.url, await runners.prepare(at, Math.min(left, BATCH)), SENT)
  }
  await note('their second renewals')
  await sleep(OBJECTS_LEAVE, undefined, { signal: ending })
  await note('their objects have left it again')
}
