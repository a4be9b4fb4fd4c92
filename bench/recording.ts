// Has a recording Worker answer requests of each kind, and gives what they asked for: as counts, and as the floor's steps.

import type { Counts } from '../test/worker/call-counts.ts'
import type { Kind } from './kinds/kind.ts'
import { send } from './load.ts'
import { type RunningSite, startSite } from './site.ts'
import type { Replay, Step, Value } from './worker/replay.ts'

export interface Recorded {
  readonly counts: Counts
  readonly replay: Replay
  /** Values of the replay that are hashes of tokens: the floor's database must have those tokens. */
  readonly tokens: readonly string[]
}

/** Requests before those that are recorded: what an isolate does once is done by then. */
const settlesAfter = ({ settlesAfter = 2 }: Kind): number => settlesAfter
/** Requests that are recorded at most, until two in turn asked for the same. */
const RECORDED = 6

export interface Recorder {
  readonly begin: (kind: Kind) => Promise<void>
  /** A kind that has begun. */
  readonly record: (kind: Kind) => Promise<Recorded>
  readonly stop: () => Promise<void>
}

export async function startRecorder(ending: AbortSignal): Promise<Recorder> {
  const site = await startSite({ entry: new URL('worker/recorded.ts', import.meta.url).pathname, ending })
  return {
    begin: async (kind) => {
      // Two runners in turn are asked often enough to stay in memory.
      await kind.begin?.(site, kind.objects === undefined ? settlesAfter(kind) + RECORDED : 2)
    },
    record: (kind) => recordKind(kind, site),
    stop: site.stop,
  }
}

async function recordKind(kind: Kind, site: RunningSite): Promise<Recorded> {
  const before = settlesAfter(kind)
  const shots = await kind.prepare(site, before + RECORDED)
  const run = async (from: number, to: number, connections: number): Promise<Pick<Recorded, 'counts' | 'replay'>> => {
    await send(site.url, shots.slice(from, to), { connections, status: kind.status })
    return JSON.parse(await (await fetch(`${site.url}/recorded`)).text())
  }
  await run(0, before, kind.settlesAfter === undefined ? 1 : 8)
  let first = await run(before, before + 1, 1)
  for (let i = before + 1; i < shots.length; i++) {
    const second = await run(i, i + 1, 1)
    const replay = withDiffering(first.replay, second.replay)
    if (replay !== undefined) {
      return { counts: second.counts, replay, tokens: await site.hashesAmong(differingTexts(replay)) }
    }
    first = second
  }
  throw new Error(`no two requests ${kind.name} asked for the same: there is no floor for them`)
}

/** `second`, with the values marked in which it differs; undefined where the two made different calls. */
function withDiffering(first: Replay, second: Replay): Replay | undefined {
  const before = pairwise(first.before, second.before, stepWithDiffering)
  const after = pairwise(first.after, second.after, stepWithDiffering)
  return before && after && { ...second, before, after }
}

function stepWithDiffering(first: Step, second: Step): Step | undefined {
  if (first.do !== 'd1' || second.do !== 'd1') return first.do === second.do ? second : undefined
  const statements = pairwise(first.statements, second.statements, (one, other) =>
    one.sql === other.sql
      ? { sql: other.sql, values: other.values.map((value, i) => valueWithDiffering(one.values[i], value)) }
      : undefined,
  )
  return statements && { do: 'd1', statements }
}

/** Numbers stay as they are, since they are times, and so does JSON other than a list of rows: a statement may read it. */
function valueWithDiffering(first: Value | undefined, second: Value): Value {
  if (typeof second !== 'string' || typeof first !== 'string' || second === first) return second
  const [rows, before] = [rowsOf(second), rowsOf(first)]
  if (rows === null) return /^[[{]/.test(second) ? second : { each: second }
  return { rows: rows.map((row, i) => row.map((cell, j) => cellWithDiffering(before?.[i]?.[j], cell))) }
}

type Row = readonly (string | number | null)[]

const cellWithDiffering = (first: Row[number] | undefined, second: Row[number]) =>
  typeof second !== 'string' || second === first || /^[[{]/.test(second) ? second : { each: second }

/** The rows of a list in JSON; null for another text. */
function rowsOf(text: string): readonly Row[] | null {
  return text.startsWith('[[') ? JSON.parse(text) : null
}

/** Undefined where the two are not of one length, or are unlike by `join`. */
function pairwise<T, U>(
  first: readonly T[],
  second: readonly T[],
  join: (one: T, other: T) => U | undefined,
): U[] | undefined {
  if (first.length !== second.length) return undefined
  const joined = second.flatMap((other, i) => {
    const one = first[i]
    return one === undefined ? [] : (join(one, other) ?? [])
  })
  return joined.length === second.length ? joined : undefined
}

const differingTexts = ({ before, after }: Replay): string[] =>
  [...before, ...after]
    .flatMap((step) => (step.do === 'd1' ? step.statements.flatMap(({ values }) => values) : []))
    .flatMap((value) => (value instanceof Object && 'each' in value ? [value.each] : []))
