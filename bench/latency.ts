// `npm run bench:latency`: how long a runner waits for its answer where D1 is far away, one request at a time.

import { stopSignal } from '../src/cli/edge/stop-signal.ts'
import { table } from '../src/cli/operator/table.ts'
import { askedOfD1 } from './asked-of-d1.ts'
import { benchCommand, runCommand, wholeNumber } from './command.ts'
import { enrollByAws, enrollByKubernetes, enrollByToken } from './kinds/enrollments.ts'
import type { Kind } from './kinds/kind.ts'
import { malformed, unknownToken } from './kinds/refusals.ts'
import { firstRenewals, warmRenewals } from './kinds/renewals.ts'
import { send } from './load.ts'
import { machine } from './report.ts'
import { type RunningSite, withSite } from './site.ts'
import { quantile } from './spread.ts'

interface Options {
  readonly json?: true
  readonly delay: number
  readonly requests: number
}

/** Each kind, and the round trips to D1 that its answer may wait for, one after another. */
const KINDS: readonly (readonly [kind: Kind, roundTrips: number])[] = [
  [enrollByToken, 1],
  [enrollByKubernetes, 1],
  [enrollByAws, 1],
  [warmRenewals(), 0],
  // It asks D1 whether the enrollment has ended.
  [firstRenewals(), 1],
  [malformed, 0],
  [unknownToken, 1],
]

/** Milliseconds that an answer may take beside its round trips to D1: an enrollment at 100 ms from D1 takes 150 at most. */
const BESIDE = 50
/** Requests that go before: what an isolate does once is done by then. */
const WARM_UP = 5

interface Figures {
  readonly kind: string
  /** Round trips to D1, one after another, that the slowest answer waited for. */
  readonly roundTrips: number
  /** Milliseconds, as the client sees them. */
  readonly leastMs: number
  readonly p50Ms: number
  readonly p99Ms: number
  readonly goalMs: number
  /** Answers that came within the goal. */
  readonly within: number
  /** No more round trips than the kind may wait for, and the median within the goal. */
  readonly isMet: boolean
}

const ending = stopSignal()
await runCommand(
  benchCommand('bench:latency', 'Measures how long an answer takes where D1 is far away, one request at a time.')
    .option('--json', 'print one object in one line')
    .option('--delay <ms>', 'milliseconds that each call to D1 takes longer', wholeNumber(0, 10_000), 100)
    .option('--requests <n>', 'requests of each kind', wholeNumber(1, 10_000), 30)
    .action(measure),
  ending,
)

async function measure({ json, delay, requests }: Options): Promise<void> {
  const kinds: Figures[] = []
  const entry = new URL('worker/watched-d1.ts', import.meta.url).pathname
  await withSite({ entry, variables: { D1_DELAY: String(delay) }, ending }, async (site) => {
    for (const [kind, roundTrips] of KINDS) {
      kinds.push(await figuresOf(site, kind, requests, { roundTrips, goalMs: roundTrips * delay + BESIDE }))
      if (!json) console.error(`measured: ${kind.name}`)
    }
  })
  if (json) console.log(JSON.stringify({ ...machine(), delayMs: delay, requests, kinds }))
  else {
    console.log(figureTable(kinds, requests))
    console.log(`\n${requests} requests of each kind, one at a time; each call to D1 takes ${delay} ms longer`)
  }
}

async function figuresOf(
  site: RunningSite,
  kind: Kind,
  requests: number,
  may: { readonly roundTrips: number; readonly goalMs: number },
): Promise<Figures> {
  const total = WARM_UP + requests
  // Two runners in turn are asked often enough to stay in memory.
  await kind.begin?.(site, kind.objects === undefined ? total : 2)
  const shots = await kind.prepare(site, total)
  await send(site.url, shots.slice(0, WARM_UP), { connections: 1, status: kind.status })
  await askedOfD1(site.url)
  let roundTrips = 0
  const latencies: number[] = []
  for (const shot of shots.slice(WARM_UP)) {
    latencies.push(...(await send(site.url, [shot], { connections: 1, status: kind.status })).latencies)
    // Waits, too, until what follows the answer is over.
    roundTrips = Math.max(roundTrips, (await askedOfD1(site.url)).waited)
  }
  const sorted = latencies.toSorted((a, b) => a - b)
  const ms = (share: number): number => Number(quantile(sorted, share).toFixed(1))
  return {
    kind: kind.name,
    roundTrips,
    leastMs: ms(0),
    p50Ms: ms(0.5),
    p99Ms: ms(0.99),
    goalMs: may.goalMs,
    within: latencies.filter((latency) => latency <= may.goalMs).length,
    isMet: roundTrips <= may.roundTrips && ms(0.5) <= may.goalMs,
  }
}

function figureTable(kinds: readonly Figures[], requests: number): string {
  const headers = ['KIND', 'WAITS FOR D1', 'LEAST ms', 'p50 ms', 'p99 ms', 'GOAL ms', 'WITHIN', 'MEDIAN']
  const rows = kinds.map(({ kind, roundTrips, leastMs, p50Ms, p99Ms, goalMs, within, isMet }) => [
    kind,
    String(roundTrips),
    ...[leastMs, p50Ms, p99Ms, goalMs].map(String),
    `${within} of ${requests}`,
    isMet ? 'met' : 'missed',
  ])
  return table(headers, rows)
}
