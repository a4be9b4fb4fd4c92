// Starts local edges for end-to-end tests: in this process, which is quick, or as `muster dev`. Not a test itself.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { startEdge as startLocalEdge } from '../../src/cli/edge/start.ts'
import { readTrust } from '../../src/cli/operator/trust-file.ts'
import { minutes } from '../../src/protocol/time.ts'
import type { CompiledTrust } from '../../src/trust/compiled.ts'
import type { Cluster } from '../../src/trust/modes/kubernetes.ts'
import { type Finished, MAIN, runMuster } from './muster.ts'
import { closeInTheEnd, spawnNode } from './processes.ts'

export interface RunningEdge {
  readonly url: string
  readonly tlsUrl: string
  /** Path of what a client must trust for `tlsUrl`. */
  readonly caFile: string
  readonly persistTo: string
  /** What it logged, a line each. */
  readonly lines: readonly string[]
  /** Runs another command of `muster`, in this process, on the same state and trust file. */
  readonly muster: (...args: string[]) => Promise<Finished>
  /** The state is kept where `persistTo` was given. */
  readonly stop: () => Promise<unknown>
}

export interface EdgeProcess extends RunningEdge {
  readonly pid: number
  /** SIGTERM; gives the exit code. */
  readonly stop: () => Promise<number | null>
  /** The state is kept. */
  readonly kill9: () => Promise<void>
}

export interface EdgeSetup {
  /** Text of the trust file; default: the tenant `acme` alone. */
  readonly trust?: string
  readonly vars?: Readonly<Record<string, string>>
  /** Host → URL that answers for it. */
  readonly outbound?: Readonly<Record<string, string>>
  /** State of an earlier edge; default: a new folder, removed on `stop`. */
  readonly persistTo?: string
}

function prepare(setup: EdgeSetup) {
  const scratch = mkdtempSync(join(tmpdir(), 'muster-edge-'))
  const persistTo = setup.persistTo ?? join(scratch, 'state')
  const trust = join(scratch, 'trust.yaml')
  writeFileSync(trust, setup.trust ?? 'tenants:\n  - slug: acme\n')
  const shared = ['--persist-to', persistTo, '--trust', trust]
  return {
    persistTo,
    trust,
    shared,
    lines: [] as string[],
    muster: (...words: string[]) => runMuster([...words, ...shared]),
    clean: () => rmSync(scratch, { recursive: true, force: true }),
  }
}

/** An edge in this process. */
export async function startEdge(setup: EdgeSetup = {}): Promise<RunningEdge> {
  const { persistTo, trust, lines, muster, clean } = prepare(setup)
  const edge = await startLocalEdge({
    port: 0,
    tlsPort: 0,
    persistTo,
    trust: await readTrust(trust),
    variables: setup.vars ?? {},
    origins: new Map(Object.entries(setup.outbound ?? {}).map(([host, url]) => [host, new URL(url)])),
    rateLimits: false,
    log: (_, message) => lines.push(message),
  })
  const isOver = closeInTheEnd(edge.stop)
  const stop = async () => {
    isOver()
    await edge.stop()
    clean()
  }
  return { ...edge, persistTo, lines, muster, stop }
}

/** `muster dev` as an operator starts it. Resolves with the ready line; rejects with what was said where it ends first. */
export async function startEdgeProcess(setup: EdgeSetup = {}, more: readonly string[] = []): Promise<EdgeProcess> {
  const { persistTo, shared, lines, muster, clean } = prepare(setup)
  const args = [
    ...['dev', '--json', '--port', '0', '--tls-port', '0', ...shared],
    ...Object.entries(setup.vars ?? {}).flatMap(([key, value]) => ['--var', `${key}=${value}`]),
    ...Object.entries(setup.outbound ?? {}).flatMap(([host, url]) => ['--outbound', `${host}=${url}`]),
    ...more,
  ]
  const child = spawnNode(MAIN, args, { stderr: 'pipe' })
  const exited = new Promise<number | null>((resolve) => child.on('close', resolve))
  let complaint = ''
  child.stderr?.on('data', (chunk) => {
    complaint += chunk
  })
  const ready = await new Promise<string>((resolve, reject) => {
    createInterface({ input: child.stdout as NodeJS.ReadableStream }).on('line', (line) => {
      lines.push(line)
      resolve(line)
    })
    exited.then((code) => reject(new Error(`muster dev ended with ${code}: ${complaint}`)))
  })
  lines.shift()
  const end = (signal: NodeJS.Signals) => {
    child.kill(signal)
    return exited
  }
  return {
    ...JSON.parse(ready),
    persistTo,
    lines,
    muster,
    pid: child.pid as number,
    stop: () => end('SIGTERM').finally(clean),
    kill9: async () => void (await end('SIGKILL')),
  }
}

/** A compiled trust file with these clusters, for an edge with another Worker in it. */
export const trustOf = (clusters: readonly Pick<Cluster, 'issuer' | 'ca'>[] = []): CompiledTrust => ({
  version: 1,
  hash: '',
  trustDomain: 'rootpilot',
  alsoTrust: [],
  certificate: { lifetime: minutes(15), reattest: null, onClone: 'end' },
  aws: { regions: [] },
  clusters: clusters.map((cluster, i) => ({
    name: `cluster-${i}`,
    mode: 'kubernetes',
    audiences: ['a'],
    maxTokenLifetime: minutes(10),
    keys: { from: 'discovery' },
    binding: null,
    workload: null,
    nodeOptional: false,
    denyNodes: [],
    ...cluster,
  })),
  bootstrapTenant: 'default',
  shards: [],
  tenants: ['default'],
  awsMappings: [],
  kubernetesMappings: [],
})
