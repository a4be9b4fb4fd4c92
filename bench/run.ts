// `npm run bench`: what each kind of request costs, measured on local edges beside the least that it could cost. With
// `-- --profile`: in what workerd spends it.

import { parseArgs } from 'node:util'
import { stopSignal } from '../src/cli/edge/stop-signal.ts'
import { cpuOfMachine } from './cpu.ts'
import type { Kind } from './kinds/kind.ts'
import { makeKinds } from './kinds/table.ts'
import { measureAll } from './measurements.ts'
import { profileKind, profileText } from './profile.ts'
import { kindTable, LEGEND, machine } from './report.ts'

const USAGE = `npm run bench -- [options] [kind…]
  --json           one object in one line, the last one
  --full           more requests, all kinds, and 10,000 runners in turn whose objects are not in memory
  --profile        no figures, but in what phases and files workerd's time goes (default kind: enroll); needs perf
  --connections N  requests at a time: 1, 2, 4, 8, 16 or 32 (8)
  --runs N         runs that count (5)
kinds: ${makeKinds()
  .map(({ name }) => name)
  .join(', ')}`

const { values: options, positionals: named } = parseArgs({
  allowPositionals: true,
  options: {
    help: { type: 'boolean', default: false },
    json: { type: 'boolean', default: false },
    full: { type: 'boolean', default: false },
    profile: { type: 'boolean', default: false },
    connections: { type: 'string', default: '8' },
    runs: { type: 'string', default: '5' },
  },
})
const [connections, runs] = [Number(options.connections), Number(options.runs)]
const unknown = named.filter((name) => !makeKinds().some((kind) => kind.name === name))
const isWrong = unknown.length > 0 || ![1, 2, 4, 8, 16, 32].includes(connections) || !isCount(runs)
if (options.help || isWrong) {
  if (unknown.length > 0) console.error(`no such kind: ${unknown.join(', ')}`)
  console.error(USAGE)
  process.exit(isWrong ? 2 : 0)
}

const ending = stopSignal()
ending.addEventListener('abort', () => {
  process.exitCode = 130
})
try {
  await (options.profile ? profileChosen() : measureChosen())
} catch (error) {
  process.exitCode = ending.aborted ? 130 : 1
  console.error(`bench: ${ending.aborted ? 'interrupted' : error instanceof Error ? error.message : error}`)
}

function isCount(number: number): boolean {
  return Number.isInteger(number) && number >= 1 && number <= 64
}

function chosen(byDefault: (kind: Kind) => boolean): Kind[] {
  return makeKinds().filter((kind) => (named.length > 0 ? named.includes(kind.name) : byDefault(kind)))
}

async function measureChosen(): Promise<void> {
  const from = performance.now()
  const before = cpuOfMachine()
  const { kinds, workerdResidentMiB } = await measureAll({
    makeKinds: () => chosen(({ isExtra }) => options.full || !isExtra),
    countOf: ({ requests }) => (options.full ? requests.full : requests.quick),
    runs,
    connections,
    ending,
    say: (what) => console.error(`${((performance.now() - from) / 1000).toFixed(0).padStart(4)} s  ${what}`),
  })
  const seconds = (performance.now() - from) / 1000
  const about = { ...machine(), connections, runs, seconds: Math.round(seconds), workerdResidentMiB }
  const busy = (cpuOfMachine() - before) / 1e9 / seconds
  if (options.json) console.log(JSON.stringify({ ...about, coresBusy: Number(busy.toFixed(1)), kinds }))
  else {
    console.log(kindTable(kinds))
    console.log(LEGEND)
    console.log(
      `${about.cpu}, ${about.cores} cores, ${busy.toFixed(1)} of them busy; ${connections} connections, ${runs} runs`,
    )
  }
}

async function profileChosen(): Promise<void> {
  for (const kind of chosen(({ name }) => name === 'enroll')) {
    const found = await profileKind(kind, connections, ending)
    console.log(options.json ? JSON.stringify({ kind: kind.name, ...found }) : profileText(kind.name, found))
  }
}
