// `npm run bench`: what each kind of request costs, measured on local edges beside the least that it could cost. With
// `-- --profile`: in what workerd spends it.

import { Argument, Option } from 'commander'
import { stopSignal } from '../src/cli/edge/stop-signal.ts'
import { benchCommand, runCommand, wholeNumber } from './command.ts'
import { cpuOfMachine } from './cpu.ts'
import type { Kind } from './kinds/kind.ts'
import { makeKinds } from './kinds/table.ts'
import { measureAll } from './measurements.ts'
import { profileKind, profileText } from './profile.ts'
import { kindTable, LEGEND, machine } from './report.ts'

interface Options {
  readonly json?: true
  readonly full?: true
  readonly profile?: true
  readonly connections: string
  readonly runs: number
}

const names = makeKinds().map(({ name }) => name)
const ending = stopSignal()
await runCommand(
  benchCommand('bench', 'Measures what each kind of request costs, beside the least that it could cost.')
    .addArgument(new Argument('[kind...]', 'these kinds alone').choices(names))
    .option('--json', 'print one object in one line, the last one')
    .option('--full', 'more requests, all kinds, and 10,000 runners in turn whose objects are not in memory')
    .option('--profile', 'no figures, but where workerd’s time goes (default kind: enroll); needs perf')
    .addOption(
      new Option('--connections <n>', 'requests at a time').choices(['1', '2', '4', '8', '16', '32']).default('8'),
    )
    .option('--runs <n>', 'runs that count', wholeNumber(1, 64), 5)
    .action((named: string[], options: Options) => (options.profile ? profileChosen : measureChosen)(named, options)),
  ending,
)

function chosen(named: readonly string[], byDefault: (kind: Kind) => boolean): Kind[] {
  return makeKinds().filter((kind) => (named.length > 0 ? named.includes(kind.name) : byDefault(kind)))
}

async function measureChosen(named: readonly string[], options: Options): Promise<void> {
  const { full = false, runs } = options
  const connections = Number(options.connections)
  const from = performance.now()
  const before = cpuOfMachine()
  const { kinds, workerdResidentMiB } = await measureAll({
    makeKinds: () => chosen(named, ({ isExtra }) => full || !isExtra),
    countOf: ({ requests }) => (full ? requests.full : requests.quick),
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

async function profileChosen(named: readonly string[], options: Options): Promise<void> {
  for (const kind of chosen(named, ({ name }) => name === 'enroll')) {
    const found = await profileKind(kind, Number(options.connections), ending)
    console.log(options.json ? JSON.stringify({ kind: kind.name, ...found }) : profileText(kind.name, found))
  }
}
