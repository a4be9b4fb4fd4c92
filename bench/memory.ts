// `npm run bench:memory`: what memory workerd holds after many enrollments, and while many runners renew.

import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { stopSignal } from '../src/cli/edge/stop-signal.ts'
import { table } from '../src/cli/operator/table.ts'
import { residentMemory, untilIdle } from './cpu.ts'
import { enrollByToken } from './kinds/enrollments.ts'
import { coldRenewals } from './kinds/renewals.ts'
import { send } from './load.ts'
import { machine } from './report.ts'
import { type RunningSite, startSite } from './site.ts'

const USAGE = `npm run bench:memory -- [options]
  --json        one object in one line
  --count N     enrollments in all (50000)
  --first N     enrollments that these are compared with (2000)
  --renewing N  runners that renew twice, after a pause in which their objects leave the memory (10000; 0: none)`

const { values: options } = parseArgs({
  options: {
    help: { type: 'boolean', default: false },
    json: { type: 'boolean', default: false },
    count: { type: 'string', default: '50000' },
    first: { type: 'string', default: '2000' },
    renewing: { type: 'string', default: '10000' },
  },
})
const [count, first, renewing] = [Number(options.count), Number(options.first), Number(options.renewing)]
const isWrong = !(Number.isInteger(count) && Number.isInteger(renewing) && first >= 1 && first < count && renewing >= 0)
if (options.help || isWrong) {
  console.error(USAGE)
  process.exit(isWrong ? 2 : 0)
}

const SENT = { connections: 16, status: 200 }
/** Requests that are prepared at a time. */
const BATCH = 1000
/** Milliseconds; workerd drops an object that nobody asks after 10 s. */
const OBJECTS_LEAVE = 15_000

const ending = stopSignal()
const site = await startSite({ ending })
try {
  const found: { readonly after: string; readonly residentMiB: number }[] = []
  const note = async (after: string): Promise<number> => {
    await untilIdle(site.pid)
    const residentMiB = residentMemory(site.pid)
    found.push({ after, residentMiB })
    if (!options.json) console.error(`${String(residentMiB).padStart(6)} MiB after ${after}`)
    return residentMiB
  }
  await note('the start')
  await enroll(site, first)
  const early = await note(`${first} enrollments`)
  await enroll(site, count - first)
  const late = await note(`${count} enrollments`)
  const enrollmentRatio = Number((late / early).toFixed(2))
  if (renewing > 0) await renew(site, note)
  if (options.json) console.log(JSON.stringify({ ...machine(), enrollmentRatio, found }))
  else {
    console.log(
      table(
        ['AFTER', 'workerd MiB'],
        found.map(({ after, residentMiB }) => [after, String(residentMiB)]),
      ),
    )
    console.log(`\n${count} enrollments take ${enrollmentRatio} times the memory of ${first} (goal: at most 1.3)`)
  }
} catch (error) {
  process.exitCode = ending.aborted ? 130 : 1
  console.error(`bench: ${ending.aborted ? 'interrupted' : error instanceof Error ? error.message : error}`)
} finally {
  await site.stop()
}

async function enroll(at: RunningSite, more: number): Promise<void> {
  for (let left = more; left > 0; left -= BATCH) {
    ending.throwIfAborted()
    await send(at.url, await enrollByToken.prepare(at, Math.min(left, BATCH)), SENT)
  }
}

/** The first renewal of each makes its object; the second one loads it. */
async function renew(at: RunningSite, note: (after: string) => Promise<number>): Promise<void> {
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
