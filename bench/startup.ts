// `npm run bench:startup`: how soon and how small everything starts: the Worker, `npm start`, a command, the runner.

import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { stopSignal } from '../src/cli/edge/stop-signal.ts'
import { table } from '../src/cli/operator/table.ts'
import { MAIN } from '../test/end-to-end/muster.ts'
import { buildPackage, memoryOfRunner } from '../test/end-to-end/packed.ts'
import { closeAll } from '../test/end-to-end/processes.ts'
import { benchCommand, runCommand, wholeNumber } from './command.ts'
import { cpuOfMachine } from './cpu.ts'
import { machine } from './report.ts'
import { type Spread, spreadOf } from './spread.ts'
import { freshCheckout, timeOf, timeToReady } from './starts/processes.ts'
import { bundleOfDeploy, gzippedBytes, startCpu } from './starts/worker.ts'

interface Figure {
  readonly unit: string
  /** What it should be less than. */
  readonly goal: number
  readonly spread: Spread
}

const MEGABYTE = 1_000_000
/** Commands that ask neither a database nor the network. */
const QUICK = ['--version', '--help', 'trust schema', 'trust check']

interface Options {
  readonly json?: true
  readonly runs: number
}

const ending = stopSignal()
await runCommand(
  benchCommand('bench:startup', 'Measures how soon and how small everything starts.')
    .option('--json', 'print one object in one line')
    .option('--runs <n>', 'runs that count', wholeNumber(1, 64), 5)
    .action((options: Options) => measure(options).finally(closeAll)),
  ending,
)

async function measure(options: Options): Promise<void> {
  const { json, runs } = options
  const [from, before] = [performance.now(), cpuOfMachine()]
  const figures = await figuresOf(options)
  const coresBusy = Number(((cpuOfMachine() - before) / 1e6 / (performance.now() - from)).toFixed(1))
  const about = { ...machine(), runs, coresBusy }
  if (json) console.log(JSON.stringify({ ...about, figures: Object.fromEntries(figures) }))
  else
    console.log(
      `${figureTable(figures)}\n\n${about.cpu}, ${about.cores} cores, ${coresBusy} of them busy; ${runs} runs`,
    )
}

type Figures = ReadonlyMap<string, Figure>

async function figuresOf({ json, runs }: Options): Promise<Figures> {
  const figures = new Map<string, Figure>()
  const add = (name: string, unit: string, goal: number, values: readonly number[]): void => {
    figures.set(name, { unit, goal, spread: spreadOf(values, 2) })
    if (!json) console.error(`measured: ${name}`)
  }
  const series = async <T>(one: () => Promise<T>): Promise<T[]> => {
    const found: T[] = []
    for (let run = 0; run < runs; run++) {
      ending.throwIfAborted()
      found.push(await one())
    }
    return found
  }
  const addCommand = async (name: string, command: string, args: readonly string[]): Promise<void> => {
    await timeOf(command, args)
    add(name, 's', 0.4, await series(() => timeOf(command, args)))
  }

  const bundle = await bundleOfDeploy()
  add('bundle, gzipped', 'KB', 110, [gzippedBytes(bundle) / 1000])
  const code = bundle.toString()
  add('Worker start, CPU', 'ms', 30, await series(() => startCpu(code)))

  const checkout = freshCheckout()
  try {
    add('npm start, first', 's', 6, [await timeToReady(checkout.folder, ending)])
    add('npm start, later', 's', 6, await series(() => timeToReady(checkout.folder, ending)))
  } finally {
    checkout.remove()
  }

  const folder = buildPackage()
  try {
    const main = join(folder, 'dist/cli/main.js')
    for (const words of QUICK) {
      const args = words.split(' ')
      await addCommand(`muster ${words}, packed`, process.execPath, [main, ...args])
      await addCommand(`muster ${words}, checkout`, process.execPath, [MAIN, ...args])
    }
    await addCommand('npm run -s muster -- --version', 'npm', ['run', '-s', 'muster', '--', '--version'])
    const memory = await series(() => memoryOfRunner(main))
    const inMegabytes = (of: 'ready' | 'renewed') => memory.map((run) => run[of] / MEGABYTE)
    add('runner, ready', 'MB', 70, inMegabytes('ready'))
    add('runner, after 5 renewals', 'MB', 70, inMegabytes('renewed'))
  } finally {
    rmSync(folder, { recursive: true })
  }
  return figures
}

function figureTable(figures: Figures): string {
  const rows = [...figures].map(([name, { unit, goal, spread }]) => [
    name,
    `${spread.min}/${spread.median}/${spread.max} ${unit}`,
    `< ${goal} ${unit}`,
    spread.median < goal ? 'met' : 'missed',
  ])
  return table(['WHAT', 'MIN/MEDIAN/MAX', 'GOAL', 'MEDIAN'], rows)
}
