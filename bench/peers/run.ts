// `npm run bench:peers`: CPU for a certificate of Muster and of other authorities, side by side in one run.

import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import { Argument } from 'commander'
import { stopSignal } from '../../src/cli/edge/stop-signal.ts'
import { messageOf } from '../../src/node/errors.ts'
import { benchCommand, runCommand, wholeNumber } from '../command.ts'
import { machine } from '../report.ts'
import { startEmulation } from './emulation.ts'
import { findProgram, versionOf } from './find.ts'
import { startMuster } from './muster.ts'
import type { Missing, Way } from './product.ts'
import { type Comparison, goalsOf, reportsOf } from './report.ts'
import { measureRounds, WARM_UP } from './rounds.ts'
import { PEERS } from './table.ts'
import { textOf } from './text.ts'

/** The runners of a renewal are a multiple of it, so that the renewals of one are in order. */
const CONNECTIONS = 8

const WHERE = `
Their programs (${PEERS.map(({ program }) => program).join(', ')}) are taken from the PATH, else from the folder MUSTER_PEERS
(plain, or compressed as NAME.xz), else built with Go.`

interface Options {
  readonly json?: true
  readonly requests: number
  readonly runs: number
}

const from = performance.now()
const say = (what: string): void => {
  console.error(`${((performance.now() - from) / 1000).toFixed(0).padStart(4)} s  ${what}`)
}
const names = PEERS.map(({ name }) => name)
const ending = stopSignal()
const closing: (() => Promise<unknown>)[] = []
await runCommand(
  benchCommand(
    'bench:peers',
    'Compares what a certificate costs Muster and other authorities, side by side in one run.',
  )
    .addArgument(new Argument('[peer...]', 'these peers alone').choices(names))
    .option('--json', 'print one object in one line, the last one')
    .option('--requests <n>', 'certificates of a run', wholeNumber(1, 100_000), 400)
    .option('--runs <n>', 'runs that count', wholeNumber(1, 100), 3)
    .addHelpText('after', WHERE)
    .action((named: string[], options: Options) => compare(named, options).finally(closeServers)),
  ending,
)

async function closeServers(): Promise<void> {
  for (const close of closing.reverse()) await close()
}

async function compare(named: readonly string[], { json, requests, runs }: Options): Promise<void> {
  if (process.platform !== 'linux') throw new Error('CPU and memory are read from /proc, which only Linux has')
  // It names who started this process; `muster dev` would take it for its own.
  delete process.env.MUSTER_STARTED_BY
  const folder = mkdtempSync(join(tmpdir(), 'muster-peers-'))
  // Once more at the very end, since a server that is killed may write until then.
  process.on('exit', () => rmSync(folder, { recursive: true, force: true }))
  const { ways, programs, missing } = await startPeers(named, folder)
  say('starting Muster')
  const muster = await startMuster((Math.max(WARM_UP, requests) + requests * runs) * 2, ending)
  closing.push(muster.stop)
  say('recording what Muster asks of D1')
  const emulation = await startEmulation(CONNECTIONS, ending)
  closing.push(emulation.stop)

  const load = loadavg()
  const plan = { muster: muster.ways, peers: ways, emulation, requests, runs, connections: CONNECTIONS, ending, say }
  const { measured, missing: failed } = await measureRounds(plan)
  const comparison: Comparison = {
    ...machine(),
    loadAverage: { before: load, after: loadavg() },
    connections: CONNECTIONS,
    requests,
    runs,
    seconds: Math.round((performance.now() - from) / 1000),
    programs,
    ways: reportsOf(measured),
    missing: [...missing, ...failed],
    goals: goalsOf(reportsOf(measured)),
  }
  console.log(json ? JSON.stringify(comparison) : textOf(comparison))
}

/** One that cannot be had or started is named with the reason. */
async function startPeers(named: readonly string[], folder: string) {
  const ways: Way[] = []
  const programs: Record<string, string> = {}
  const missing: Missing[] = []
  for (const { name, program, module, version, start } of PEERS) {
    if (named.length > 0 && !named.includes(name)) continue
    try {
      const found = await findProgram(program, module, say, ending)
      programs[name] = `${await versionOf(found.path, version)} (${found.from})`
      say(`starting ${name}: ${programs[name]}`)
      const own = join(folder, program)
      mkdirSync(own)
      const product = await start({ program: found.path, folder: own, connections: CONNECTIONS })
      closing.push(product.stop)
      ways.push(...product.ways)
    } catch (error) {
      ending.throwIfAborted()
      missing.push({ name, why: messageOf(error).replaceAll('\n', ' ') })
    }
  }
  return { ways, programs, missing }
}
