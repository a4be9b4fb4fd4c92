// `npm run bench:d1`: how long the one writer of D1 is busy for an enrollment.
// Enrollments follow each other on a real local edge, so no call to D1 waits for another.

import { stopSignal } from '../src/cli/edge/stop-signal.ts'
import { type AskedOfD1, askedOfD1 } from './asked-of-d1.ts'
import { benchCommand, runCommand, wholeNumber } from './command.ts'
import { enrollByAws, enrollByKubernetes, enrollByToken } from './kinds/enrollments.ts'
import type { Kind } from './kinds/kind.ts'
import { send } from './load.ts'
import { type RunningSite, withSite } from './site.ts'

/** Requests that go before: caches are filled by then. */
const WARM_UP = 20

/** For one enrollment. */
interface Busy extends Omit<AskedOfD1, 'waited'> {
  readonly kind: string
}

interface Options {
  readonly json?: true
  readonly enrollments: number
}

const ending = stopSignal()
await runCommand(
  benchCommand('bench:d1', 'Measures how long the one writer of D1 is busy for an enrollment.')
    .option('--json', 'print one list in one line')
    .option('--enrollments <n>', 'enrollments of each kind', wholeNumber(1, 100_000), 300)
    .action(measure),
  ending,
)

async function measure({ json, enrollments }: Options): Promise<void> {
  const kinds: Busy[] = []
  const entry = new URL('worker/watched-d1.ts', import.meta.url).pathname
  await withSite({ entry, variables: { D1_DELAY: '0' }, ending }, async (site) => {
    for (const kind of [enrollByToken, enrollByKubernetes, enrollByAws])
      kinds.push(await busyFor(site, kind, enrollments))
  })
  if (json) {
    console.log(JSON.stringify(kinds))
    return
  }
  console.log('for one enrollment: calls to D1, rows read and written, and how long D1 takes')
  for (const { kind, calls, rowsRead, rowsWritten, milliseconds, sqlMilliseconds } of kinds) {
    const rows = `${rowsRead.toFixed(1)} / ${rowsWritten.toFixed(1)} rows`
    console.log(
      `  ${kind.padEnd(12)}${calls.toFixed(1)} calls  ${rows}  ${milliseconds.toFixed(2)} ms, ${sqlMilliseconds.toFixed(3)} of it SQL`,
    )
  }
}

async function busyFor(site: RunningSite, kind: Kind, count: number): Promise<Busy> {
  const { url } = site
  const shots = await kind.prepare(site, count + WARM_UP)
  await send(url, shots.slice(0, WARM_UP), { connections: 1, status: kind.status })
  await askedOfD1(url)
  await send(url, shots.slice(WARM_UP), { connections: 1, status: kind.status })
  const { calls, milliseconds, sqlMilliseconds, rowsRead, rowsWritten } = await askedOfD1(url)
  return {
    kind: kind.name,
    calls: calls / count,
    rowsRead: rowsRead / count,
    rowsWritten: rowsWritten / count,
    milliseconds: milliseconds / count,
    sqlMilliseconds: sqlMilliseconds / count,
  }
}
