// `npm run bench:startup`: how soon and how small everything starts: the Worker, `npm start`, a command, the runner.

import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { stopSignal } from '../src/cli/edge/stop-signal.ts'
import { table } from '../src/cli/operator/table.ts'
import { MAIN } from '../test/end-to-end/muster.ts'
import { buildPackage, memoryOfRunner } from '../test/end-to-end/packed.ts'
import { closeAll } from '../test/end-to-end/processes.ts'
import { cpuOfMachine } from './cpu.ts'
import { machine } from './report.ts'
import { type Spread, spreadOf } from './spread.ts'
import { freshCheckout, timeOf, timeToReady } from './starts/processes.ts'
import { bundleOfDeploy, gzippedBytes, startCpu } from './starts/worker.ts'

const USAGE = `npm run bench:startup -- [options]
  --json    one object in one line
  --runs N  runs that count (5)`

const { values: options } = parseArgs({
  options: {
    help: { type: 'boolean', default: false },
    json: { type: 'boolean', default: false },
    runs: { type: 'string', default: '5' },
  },
})
const runs = Number(options.runs)
const isWrong = !Number.isInteger(runs) || runs < 1
if (options.help || isWrong) {
  console.error(USAGE)
  process.exit(isWrong ? 2 : 0)
}

interface Figure {
  readonly unit: string
  /** What it should be less than. */
  readonly goal: number
  readonly spread: Spread
}

const MEGABYTE = 1_000_000
/** Commands that ask neither a database nor the network. */
const QUICK = ['--version', '--help', 'trust schema', 'trust check']

const ending = stopSignal()
const figures = new Map<string, Figure>()
try {
  const [from, before] = [performance.now(), cpuOfMachine()]
  await measureAll()
  const coresBusy = Number(((cpuOfMachine() - before) / 1e6 / (performance.now() - from)).toFixed(1))
  const about = { ...machine(), runs, coresBusy }
  if (options.json) console.log(JSON.stringify({ ...about, figures: Object.fromEntries(figures) }))
  else console.log(`${figureTable()}\n\n${about.cpu}, ${about.cores} cores, ${coresBusy} of them busy; ${runs} runs`)
} catch (error) {
  process.exitCode = ending.aborted ? 130 : 1
  console.error(`bench: ${ending.aborted ? 'interrupted' : error instanceof Error ? error.message : error}`)
} finally {
  await closeAll()
}

async function measureAll(): Promise<void> {
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
}

async function addCommand(name: string, command: string, args: readonly string[]): Promise<void> {
  await timeOf(command, args)
  add(name, 's', 0.4, await series(() => timeOf(command, args)))
}

async function series<T>(one: () => Promise<T>): Promise<T[]> {
  const found: T[] = []
  for (let run = 0; run < runs; run++) {
    ending.throwIfAborted()
    found.push(await one())
  }
  return found
}

function add(name: string, unit: string, goal: number, values: readonly number[]): void {
  figures.set(name, { unit, goal, spread: spreadOf(values, 2) })
  if (!options.json) console.error(`measured: ${name}`)
}

function figureTable(): string {
  const rows = [...figures].map(([name, { unit, goal, spread }]) => [
    name,
    `${spread.min}/${spread.median}/${spread.max} ${unit}`,
    `< ${goal} ${unit}`,
    spread.median < goal ? 'met' : 'missed',
  ])
  return table(['WHAT', 'MIN/MEDIAN/MAX', 'GOAL', 'MEDIAN'], rows)
}
