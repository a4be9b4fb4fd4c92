// Measures all kinds in rounds: the real Worker and the floor Worker in turn, so that what else the machine does meets both.

import { residentMemory } from './cpu.ts'
import { type Floor, type Part, startFloor } from './floor.ts'
import type { Kind } from './kinds/kind.ts'
import type { Shot } from './load.ts'
import { measure, type Run } from './measure.ts'
import { type Recorded, startRecorder } from './recording.ts'
import { type KindReport, type KindRuns, kindReport } from './report.ts'
import { type RunningSite, startSite } from './site.ts'

export interface Plan {
  /** Made anew for each: a kind has the runners of one edge. */
  readonly makeKinds: () => Kind[]
  readonly countOf: (kind: Kind) => number
  /** Beside a first one, which warms up and is left out. */
  readonly runs: number
  readonly connections: number
  readonly ending: AbortSignal
  readonly say: (what: string) => void
}

export interface Measurements {
  readonly kinds: Readonly<Record<string, KindReport>>
  /** Of workerd with the real Worker in it, in the end. */
  readonly workerdResidentMiB: number
}

export async function measureAll(plan: Plan): Promise<Measurements> {
  const closing: (() => Promise<void>)[] = []
  try {
    const recorder = await startRecorder(plan.ending)
    closing.push(recorder.stop)
    const recordedKinds = coldLast(plan.makeKinds())
    for (const kind of recordedKinds.toReversed()) await recorder.begin(kind)
    const site = await startSite({ ending: plan.ending })
    closing.push(site.stop)
    const kinds = coldLast(plan.makeKinds())
    for (const kind of kinds.toReversed()) await kind.begin?.(site, plan.countOf(kind) * (plan.runs + 1))

    plan.say('recording what a request of each kind asks for')
    const recorded = new Map<string, Recorded>()
    for (const kind of recordedKinds) recorded.set(kind.name, await recorder.record(kind))
    await recorder.stop()
    closing.shift()
    const floor = await startFloor(recorded, plan.ending)
    closing.push(floor.stop)
    for (const kind of kinds) if (kind.isCold) await floor.begin(kind, plan.countOf(kind) * (plan.runs + 1))

    const rounds = await measureRounds(plan, kinds, site, floor, recorded)
    const reports = [...recorded].map(([name, { counts }]) => [name, kindReport(runsOf(rounds, name), counts)] as const)
    return { kinds: Object.fromEntries(reports), workerdResidentMiB: residentMemory(site.pid) }
  } finally {
    for (const close of closing.reverse()) await close()
  }
}

/** They are begun first and measured last, since their objects leave the memory only after a while. */
const coldLast = (kinds: readonly Kind[]): Kind[] => [
  ...kinds.filter(({ isCold }) => !isCold),
  ...kinds.filter(({ isCold }) => isCold),
]

type Round = ReadonlyMap<string, Readonly<Partial<Record<Part | 'ours', Run>>>>

async function measureRounds(
  { countOf, runs, connections, ending, say }: Plan,
  kinds: readonly Kind[],
  site: RunningSite,
  floor: Floor,
  recorded: ReadonlyMap<string, Recorded>,
): Promise<Round[]> {
  const rounds: Round[] = []
  for (let run = 0; run <= runs; run++) {
    say(run === 0 ? 'warming up' : `run ${run} of ${runs}`)
    const round = new Map<string, Partial<Record<Part | 'ours', Run>>>()
    for (const kind of kinds) {
      ending.throwIfAborted()
      const options = { connections, status: kind.status }
      const shots = await kind.prepare(site, countOf(kind) * (run === 0 ? warmUpOf(kind) : 1))
      const partial = async (part: Part, some: readonly Shot[]) =>
        measure(floor, await floor.prepare(kind, part, some), options)
      const ours = await measure(site, shots, options)
      const all = await partial('all', shots)
      const half = shots.slice(0, Math.ceil(shots.length / 2))
      const emulated = asksD1(recorded.get(kind.name))
        ? { d1: await partial('d1', half), nothing: await partial('nothing', half) }
        : {}
      round.set(kind.name, { ours, all, ...emulated })
    }
    if (run > 0) rounds.push(round)
  }
  return rounds
}

/**
 * How many times as many requests the first round sends: V8 compiles more while they come, and a request costs a third more
 * before. A kind that takes a runner for each request has as many runners as the rounds need.
 */
const warmUpOf = ({ begin, objects }: Kind): number => (begin === undefined || objects !== undefined ? 4 : 1)

const asksD1 = (recorded: Recorded | undefined): boolean => recorded !== undefined && recorded.counts.d1.calls > 0

function runsOf(rounds: readonly Round[], name: string): KindRuns {
  const of = (part: Part | 'ours'): Run[] => rounds.flatMap((round) => round.get(name)?.[part] ?? [])
  return { ours: of('ours'), floor: of('all'), d1: of('d1'), nothing: of('nothing') }
}
