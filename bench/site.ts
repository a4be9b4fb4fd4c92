// Starts a local edge with what surrounds it: an issuer of Kubernetes tokens and an STS, both fakes on loopback.

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Query } from '../src/cli/edge/runtime.ts'
import { startEdge } from '../src/cli/edge/start.ts'
import { stateFolder } from '../src/cli/edge/state.ts'
import { claimState } from '../src/cli/edge/state-server.ts'
import { workerdPid } from '../src/cli/edge/watchdog.ts'
import { readTrust } from '../src/cli/operator/trust-file.ts'
import { systemClock, toEpochSeconds } from '../src/protocol/time.ts'
import { hashToken, mintToken } from '../src/protocol/tokens.ts'
import { uuidv7 } from '../src/protocol/uuid.ts'
import { startEdgeProcess } from '../test/end-to-end/edge.ts'
import { makeIssuer, makeIssuerKey } from '../test/fakes/issuer.ts'
import { serveIssuer } from '../test/fakes/issuer-server.ts'
import { type FakeKey, fakeSts, signEvidence } from '../test/fakes/sts.ts'
import { serveSts } from '../test/fakes/sts-server.ts'
import type { Site } from './kinds/kind.ts'

const AUDIENCE = 'compass-runner'
const TRUST = `tenants:
  - slug: acme
    aws:
      - { account: "123456789012", role: runner }
bootstrapTenant: acme
clusters:
  - name: lab
    issuer: https://issuer.test
    audience: ${AUDIENCE}
    namespace: runners
    serviceAccount: runner
`
const KEY: FakeKey = {
  accessKeyId: 'ASIABENCHBENCHBENCH1',
  secretAccessKey: 'secret of the bench',
  sessionToken: 'session of the bench',
  arn: 'arn:aws:sts::123456789012:assumed-role/runner/i-0123456789abcdef0',
  userId: 'AROABENCHBENCHBENCH12:i-0123456789abcdef0',
}

export interface RunningSite extends Site {
  readonly tlsUrl: string
  /** Path of what a client must trust for `tlsUrl`. */
  readonly caFile: string
  /** Process id of workerd. */
  readonly pid: number
  /** Process id of what is in front of workerd: this process, or `muster dev`. */
  readonly edgePid: number
  /** Those of the texts that are the hash of a token. */
  readonly hashesAmong: (texts: readonly string[]) => Promise<string[]>
  /** Records bootstrap tokens by their hashes. */
  readonly recordTokens: (hashes: readonly string[]) => Promise<void>
  readonly stop: () => Promise<void>
}

export interface SiteOptions {
  /** Another entry file of the Worker. */
  readonly entry?: string
  /** Of the Worker's environment. */
  readonly variables?: Readonly<Record<string, string>>
  /** Runs `muster dev`, so that the CPU of what is in front of workerd can be told from this process'. */
  readonly isApart?: true
  readonly ending: AbortSignal
}

/** Has a site for `work` alone, which fails where `ending` fires. */
export async function withSite<T>(options: SiteOptions, work: (site: RunningSite) => Promise<T>): Promise<T> {
  const site = await startSite(options)
  const stop = (): void => void site.stop()
  options.ending.addEventListener('abort', stop)
  try {
    return await work(site)
  } finally {
    options.ending.removeEventListener('abort', stop)
    await site.stop()
  }
}

/** Its state is in a new folder, which `stop` removes. */
export async function startSite({ entry, variables = {}, isApart, ending }: SiteOptions): Promise<RunningSite> {
  const folder = mkdtempSync(join(tmpdir(), 'muster-bench-'))
  const remove = (): void => rmSync(folder, { recursive: true, force: true })
  // Also where an interrupted process ends before all is closed.
  process.once('exit', remove)
  const closing: (() => unknown)[] = [() => process.off('exit', remove), remove]
  const stop = async (): Promise<void> => {
    for (const close of closing.splice(0).reverse()) await close()
  }
  try {
    const issuer = await makeIssuer('https://issuer.test', await makeIssuerKey('bench', 'RS256'))
    const issuerServer = await serveIssuer(issuer)
    closing.push(issuerServer.close)
    const sts = await serveSts(fakeSts(systemClock, [KEY]))
    closing.push(sts.close)

    const persistTo = join(folder, 'state')
    const start = isApart ? startApart : startHere
    const outbound = { 'issuer.test': issuerServer.url, 'sts.us-east-1.amazonaws.com': sts.url }
    const edge = await start({ folder, persistTo, outbound, entry, variables, ending })
    closing.push(edge.stop)
    const state = stateFolder(persistTo)
    const claimed = await claimState(state)
    if (claimed.ok) throw new Error('the edge has not locked its state')
    const { query } = claimed.error

    return {
      ...edge,
      pid: Number(readFileSync(workerdPid(state, edge.edgePid), 'utf8')),
      stop,
      mint: async (count) => {
        const tokens = Array.from({ length: count }, () => mintToken('bootstrap'))
        await recordTokens(query, await Promise.all(tokens.map(hashToken)))
        return tokens
      },
      recordTokens: (hashes) => recordTokens(query, hashes),
      hashesAmong: async (texts) =>
        (
          await query(0, 'SELECT hash FROM token WHERE hash IN (SELECT value FROM json_each(?))', [
            JSON.stringify(texts),
          ])
        ).map(([hash]) => String(hash)),
      kubernetesToken: (node) =>
        issuer.token(toEpochSeconds(systemClock()), {
          claims: { aud: [AUDIENCE] },
          workload: { node: { name: node, uid: crypto.randomUUID() } },
        }),
      awsEvidence: (nonce) => signEvidence({ key: KEY, nonce, at: systemClock() }),
    }
  } catch (error) {
    await stop()
    throw error
  }
}

interface Start {
  readonly folder: string
  readonly persistTo: string
  /** Host → URL that answers for it. */
  readonly outbound: Readonly<Record<string, string>>
  readonly entry: string | undefined
  readonly variables: Readonly<Record<string, string>>
  readonly ending: AbortSignal
}

type Started = Pick<RunningSite, 'url' | 'tlsUrl' | 'caFile' | 'edgePid'> & { readonly stop: () => Promise<unknown> }

async function startHere({ folder, persistTo, outbound, entry, variables, ending }: Start): Promise<Started> {
  const trust = join(folder, 'trust.yaml')
  writeFileSync(trust, TRUST)
  const edge = await startEdge({
    port: 0,
    tlsPort: 0,
    persistTo,
    trust: await readTrust(trust),
    variables,
    origins: new Map(Object.entries(outbound).map(([host, url]) => [host, new URL(url)])),
    rateLimits: false,
    ending,
    log: (level, message) => {
      if (level === 'error') console.error(message)
    },
    ...(entry !== undefined && { entry }),
  })
  return { ...edge, edgePid: process.pid }
}

async function startApart({ persistTo, outbound, variables }: Start): Promise<Started> {
  const setup = { trust: TRUST, persistTo, outbound, vars: variables }
  const { url, tlsUrl, caFile, pid, stop } = await startEdgeProcess(setup)
  return { url, tlsUrl, caFile, edgePid: pid, stop }
}

/** D1 takes a parameter of 2 MB at most; a token is 110 octets of it. */
const AT_ONCE = 5000

/** By SQL through the running edge: `muster token mint` would be a process for each. */
async function recordTokens(query: Query, hashes: readonly string[]): Promise<void> {
  const now = toEpochSeconds(systemClock())
  for (let from = 0; from < hashes.length; from += AT_ONCE) {
    const rows = hashes.slice(from, from + AT_ONCE).map((hash) => [hash, uuidv7(systemClock())])
    await query(
      0,
      `INSERT INTO token (hash, id, kind, tenant, created_at, expires_at)
        SELECT value ->> 0, value ->> 1, 'bootstrap', 'acme', ?2, ?2 + 3600 FROM json_each(?1)`,
      [JSON.stringify(rows), now],
    )
  }
}
