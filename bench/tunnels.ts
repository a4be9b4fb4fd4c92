// `npm run bench:tunnels`: opens many tunnels on one local edge and takes all of them through a round of renewals. Says how
// long each step took, whether a tunnel was lost, and what memory workerd had.

import { readFileSync } from 'node:fs'
import { Argument } from 'commander'
import { stopSignal } from '../src/cli/edge/stop-signal.ts'
import { type EdgeProcess, startEdgeProcess } from '../test/end-to-end/edge.ts'
import { type FleetClient, fleetClient, type Identity, type Tunnel } from '../test/end-to-end/fleet-client.ts'
import { benchCommand, runCommand, wholeNumber } from './command.ts'
import { residentMemory, treeOf } from './cpu.ts'

const AT_ONCE = 16

interface Live {
  readonly identity: Identity
  readonly tunnel: Tunnel
}

const ending = stopSignal()
await runCommand(
  benchCommand('bench:tunnels', 'Opens many tunnels on one local edge, and renews each once.')
    .addArgument(new Argument('[tunnels]', 'how many').argParser(wholeNumber(1, 100_000)).default(1000))
    .action(measure),
  ending,
)

async function measure(count: number): Promise<void> {
  const edge = await startEdgeProcess()
  const client = fleetClient(edge)
  try {
    const timed = async <T>(what: string, work: () => Promise<T>): Promise<T> => {
      const from = performance.now()
      const result = await work()
      console.log(`${count} ${what} in ${((performance.now() - from) / 1000).toFixed(1)} s`)
      return result
    }
    const idle = memoryOf(edge)
    const { token } = await client.mint('--runner-id', 'bench')
    const identities = await timed('enrolled', () => each(Array.from({ length: count }), () => client.enroll(token)))
    let fleet = await timed('connected', () => each(identities, (identity) => open(client, identity)))
    const connected = memoryOf(edge)
    fleet = await timed('renewed, make before break', () => each(fleet, (live) => renew(client, live)))
    const answered = await timed('answered a ping', () => each(fleet, ({ tunnel }) => ping(tunnel)))
    const lost = answered.filter((answer) => answer !== 'pong').length
    const memory = { idle, connected, renewed: memoryOf(edge) }
    console.log(JSON.stringify({ tunnels: count, lost, workerdResidentMiB: memory }))
    process.exitCode = lost === 0 ? 0 : 1
  } finally {
    await client.close()
    await edge.stop()
  }
}

async function open(to: FleetClient, identity: Identity): Promise<Live> {
  return { identity, tunnel: await to.connect(identity) }
}

async function renew(to: FleetClient, { identity, tunnel }: Live): Promise<Live> {
  const renewed = await to.renew(identity)
  if (renewed.status !== 200) throw new Error(JSON.stringify(renewed.json))
  const next = await open(to, renewed)
  const code = await tunnel.closed
  if (code !== 4002) throw new Error(`the old tunnel was closed with ${code}`)
  return next
}

function ping({ socket }: Tunnel): Promise<string> {
  return new Promise((resolve) => {
    socket.once('message', (data) => resolve(String(data)))
    socket.once('close', (code) => resolve(`closed with ${code}`))
    socket.send('ping')
  })
}

async function each<T, U>(items: readonly T[], work: (item: T) => Promise<U>): Promise<U[]> {
  const done: U[] = []
  const queue = items.entries()
  const lane = async () => {
    for (const [i, item] of queue) {
      ending.throwIfAborted()
      done[i] = await work(item)
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, lane))
  return done
}

/** Resident memory of every workerd under the edge, in MiB. */
function memoryOf({ pid }: EdgeProcess): number {
  const isWorkerd = (one: number): boolean => readFileSync(`/proc/${one}/comm`, 'utf8').startsWith('workerd')
  return treeOf(pid)
    .filter(isWorkerd)
    .reduce((sum, one) => sum + residentMemory(one), 0)
}
