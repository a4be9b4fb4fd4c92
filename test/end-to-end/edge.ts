// Starts `muster dev` as a process, as an operator would, for tests from outside. Not a test itself.
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { minutes } from '../../src/protocol/time.ts'
import type { CompiledTrust } from '../../src/trust/compiled.ts'
import type { Cluster } from '../../src/trust/modes/kubernetes.ts'

export const PROJECT = fileURLToPath(new URL('../../', import.meta.url))

export interface RunningEdge {
  readonly url: string
  readonly tlsUrl: string
  /** Path of what a client must trust for `tlsUrl`. */
  readonly caFile: string
  readonly persistTo: string
  readonly pid: number
  /** Everything that it wrote after the ready line, a line each. */
  readonly lines: readonly string[]
  /** Runs another command of `muster` on the same state and trust file. */
  readonly muster: (...args: string[]) => Promise<Finished>
  /** SIGTERM; gives the exit code. The state is kept where `persistTo` was given. */
  readonly stop: () => Promise<number | null>
  readonly kill9: () => Promise<void>
}

export interface Finished {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

export interface EdgeSetup {
  /** Text of the trust file; default: the tenant `acme` alone. */
  readonly trust?: string
  readonly vars?: Readonly<Record<string, string>>
  /** Host → URL that answers for it. */
  readonly outbound?: Readonly<Record<string, string>>
  /** State of an earlier edge; default: a new folder, removed on `stop`. */
  readonly persistTo?: string
  readonly args?: readonly string[]
  readonly env?: Readonly<Record<string, string>>
}

/** Resolves with the ready line; rejects with what was said where it exits before. */
export async function startEdge(setup: EdgeSetup = {}): Promise<RunningEdge> {
  const scratch = mkdtempSync(join(tmpdir(), 'muster-edge-'))
  const persistTo = setup.persistTo ?? join(scratch, 'state')
  const trustFile = join(scratch, 'trust.yaml')
  writeFileSync(trustFile, setup.trust ?? 'tenants:\n  - slug: acme\n')
  const shared = ['--persist-to', persistTo, '--trust', trustFile]
  const args = [
    ...['dev', '--json', '--port', '0', '--tls-port', '0', ...shared],
    ...Object.entries(setup.vars ?? {}).flatMap(([key, value]) => ['--var', `${key}=${value}`]),
    ...Object.entries(setup.outbound ?? {}).flatMap(([host, url]) => ['--outbound', `${host}=${url}`]),
    ...(setup.args ?? []),
  ]
  const child = spawnMuster(args, setup.env)
  const exited = new Promise<number | null>((resolve) => child.on('close', resolve))
  const lines: string[] = []
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
  const clean = () => rmSync(scratch, { recursive: true, force: true })
  return {
    ...JSON.parse(ready),
    persistTo,
    pid: child.pid as number,
    lines,
    muster: (...words) => runMuster([...words, ...shared], setup.env),
    stop: async () => {
      child.kill('SIGTERM')
      const code = await exited
      clean()
      return code
    },
    kill9: async () => {
      child.kill('SIGKILL')
      await exited
    },
  }
}

/** Runs `muster` to its end. */
export async function runMuster(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
  cwd = PROJECT,
): Promise<Finished> {
  const child = spawnMuster(args, env, cwd)
  const output = { stdout: '', stderr: '' }
  child.stdout?.on('data', (chunk) => {
    output.stdout += chunk
  })
  child.stderr?.on('data', (chunk) => {
    output.stderr += chunk
  })
  const code = await new Promise<number | null>((resolve) => child.on('close', resolve))
  return { code, ...output }
}

const spawnMuster = (
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
  cwd = PROJECT,
): ChildProcess =>
  spawn(process.execPath, [join(cwd, 'src/cli/main.ts'), ...args], {
    cwd,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, ...env },
  })

/** A compiled trust file with these clusters, for an edge started in this process. */
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
    nodeOptional: false,
    denyNodes: [],
    ...cluster,
  })),
  bootstrapTenant: 'default',
  tenants: ['default'],
  awsMappings: [],
  kubernetesMappings: [],
})
