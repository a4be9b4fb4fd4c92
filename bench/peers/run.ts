// `npm run bench:peers`: CPU for a certificate of Muster and of other authorities, side by side in one run.

import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { stopSignal } from '../../src/cli/edge/stop-signal.ts'
import { messageOf } from '../../src/node/errors.ts'
import { machine } from '../report.ts'
import { startEmulation } from './emulation.ts'
import { findProgram, versionOf } from './find.ts'
import { startMuster } from './muster.ts'
import type { Missing, Way } from './product.ts'
import { type Comparison, goalsOf, reportsOf } from './report.ts'
import { measureRounds } from './rounds.ts'
import { PEERS } from './table.ts'
import { textOf } from './text.ts'

const USAGE = `npm run bench:peers -- [options] [peer…]
  --json        one object in one line, the last one
  --requests N  certificates of a run (400)
  --runs N      runs that count (3)
peers: ${PEERS.map(({ name }) => name).join(', ')}
Their programs (${PEERS.map(({ program }) => program).join(', ')}) are taken from the PATH, else from the folder MUSTER_PEERS
(plain, or compressed as NAME.xz), else built with Go.`

/** The runners of a renewal are a multiple of it, so that the renewals of one are in order. */
const CONNECTIONS = 8

const { options, named } = readArguments()
const [requests, runs] = [Number(options.requests), Number(options.runs)]
const unknown = named.filter((name) => !PEERS.some((peer) => peer.name === name))
if (options.help) {
  console.log(USAGE)
  process.exit()
}
if (unknown.length > 0) refuse(`there is no peer ${unknown.join(', ')}`)
if (!isCount(requests, 100_000)) refuse('--requests takes a whole number from 1 to 100000')
if (!isCount(runs, 100)) refuse('--runs takes a whole number from 1 to 100')
if (process.platform !== 'linux') refuse('CPU and memory are read from /proc, which only Linux has')

function readArguments() {
  try {
    const { values, positionals } = parseArgs({
      allowPositionals: true,
      options: {
        help: { type: 'boolean', default: false },
        json: { type: 'boolean', default: false },
        requests: { type: 'string', default: '400' },
        runs: { type: 'string', default: '3' },
      },
    })
    return { options: values, named: positionals }
  } catch (error) {
    refuse(messageOf(error))
  }
}

function refuse(why: string): never {
  console.error(`bench:peers: ${why}\n${USAGE}`)
  process.exit(2)
}

function isCount(number: number, most: number): boolean {
  return Number.isInteger(number) && number >= 1 && number <= most
}

const from = performance.now()
const say = (what: string): void => {
  console.error(`${((performance.now() - from) / 1000).toFixed(0).padStart(4)} s  ${what}`)
}
const ending = stopSignal()
// It names who started this process; `muster dev` would take it for its own.
delete process.env.MUSTER_STARTED_BY
const folder = mkdtempSync(join(tmpdir(), 'muster-peers-'))
// Once more at the very end, since a server that is killed may write until then.
process.on('exit', () => rmSync(folder, { recursive: true, force: true }))
const closing: (() => Promise<unknown>)[] = []
try {
  await compare()
} catch (error) {
  // Ctrl-C reaches the servers, too: what they leave undone may be seen before the signal is.
  await sleep(100)
  console.error(ending.aborted ? 'bench:peers: stopped' : `bench:peers: ${messageOf(error)}`)
  process.exitCode = ending.aborted ? 130 : 1
} finally {
  for (const close of closing.reverse()) await close()
}

async function compare(): Promise<void> {
  const { ways, programs, missing } = await startPeers()
  say('starting Muster')
  const muster = await startMuster(requests * (runs + 1) * 2, ending)
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
  console.log(options.json ? JSON.stringify(comparison) : textOf(comparison))
}

/** One that cannot be had or started is named with the reason. */
async function startPeers() {
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
