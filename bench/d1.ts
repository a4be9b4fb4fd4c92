// Measures how long the one writer of D1 is busy for an enrollment: `npm run bench:d1 [-- --json] [-- --enrollments N]`.
// Enrollments follow each other on a real local edge, so no call to D1 waits for another.

import { parseArgs } from 'node:util'
import { stopSignal } from '../src/cli/edge/stop-signal.ts'
import { messageOf } from '../src/node/errors.ts'
import { enrollByAws, enrollByKubernetes, enrollByToken } from './kinds/enrollments.ts'
import type { Kind } from './kinds/kind.ts'
import { send } from './load.ts'
import { type RunningSite, startSite } from './site.ts'

/** Requests that go before: caches are filled by then. */
const WARM_UP = 20

interface Counted {
  readonly calls: number
  readonly milliseconds: number
  /** Of that, what D1 says that its SQL took. */
  readonly sqlMilliseconds: number
  readonly rowsRead: number
  readonly rowsWritten: number
}

const { values } = parseArgs({ options: { json: { type: 'boolean' }, enrollments: { type: 'string' } } })
const count = Number(values.enrollments ?? 300)
if (!Number.isSafeInteger(count) || count < 1) {
  console.error(`--enrollments ${values.enrollments}: a whole number from 1 on`)
  process.exit(1)
}

const ending = stopSignal()
const entry = new URL('worker/timed-d1.ts', import.meta.url).pathname
const site = await startSite({ entry, ending })
ending.addEventListener('abort', () => void site.stop())
try {
  const kinds = []
  for (const kind of [enrollByToken, enrollByKubernetes, enrollByAws]) kinds.push(await busyFor(site, kind))
  if (values.json === true) console.log(JSON.stringify(kinds))
  else {
    console.log('for one enrollment: calls to D1, rows read and written, and how long D1 takes')
    for (const { kind, calls, rowsRead, rowsWritten, milliseconds, sqlMilliseconds } of kinds) {
      const rows = `${rowsRead.toFixed(1)} / ${rowsWritten.toFixed(1)} rows`
      console.log(
        `  ${kind.padEnd(12)}${calls.toFixed(1)} calls  ${rows}  ${milliseconds.toFixed(2)} ms, ${sqlMilliseconds.toFixed(3)} of it SQL`,
      )
    }
  }
} catch (error) {
  process.exitCode = ending.aborted ? 130 : 1
  console.error(`bench:d1: ${ending.aborted ? 'interrupted' : messageOf(error)}`)
} finally {
  await site.stop()
}

async function busyFor({ url, ...rest }: RunningSite, kind: Kind) {
  const shots = await kind.prepare({ url, ...rest }, count + WARM_UP)
  await send(url, shots.slice(0, WARM_UP), { connections: 1, status: kind.status })
  await counted(url)
  await send(url, shots.slice(WARM_UP), { connections: 1, status: kind.status })
  const { calls, milliseconds, sqlMilliseconds, rowsRead, rowsWritten } = await counted(url)
  return {
    kind: kind.name,
    calls: calls / count,
    rowsRead: rowsRead / count,
    rowsWritten: rowsWritten / count,
    milliseconds: milliseconds / count,
    sqlMilliseconds: sqlMilliseconds / count,
  }
}

async function counted(url: string): Promise<Counted> {
  return JSON.parse(await (await fetch(`${url}/d1-times`)).text())
}
