// Starts and stops the local edge: state, certificates, Worker, ports.

import { randomBytes } from 'node:crypto'
import type { Server } from 'node:http'
import { join } from 'node:path'
import { closeServer, listen } from '../../node/server.ts'
import type { CompiledTrust } from '../../trust/compiled.ts'
import { bindingOf } from '../../trust/shards.ts'
import { CommandError } from '../operator/command.ts'
import { bundle } from './bundle.ts'
import { developmentCa, serverCertificate } from './certificates.ts'
import { runCrons, runScheduled } from './crons.ts'
import { outboundWorker } from './outbound.ts'
import { environmentOf, PROJECT, readProject, shardsIn } from './project.ts'
import { stateFolder } from './state.ts'
import { claimState, serveState } from './state-server.ts'
import { plainServer, tlsServer } from './terminator.ts'

export interface EdgeOptions {
  readonly port: number
  readonly tlsPort: number
  readonly persistTo: string
  readonly trust: CompiledTrust
  readonly variables: Readonly<Record<string, string>>
  /** `host` or `host:port` → origin that answers in its place. */
  readonly origins: ReadonlyMap<string, URL>
  readonly rateLimits: boolean
  /** wrangler's environment. */
  readonly environment?: string | undefined
  /** Whoever started it and wants it no more, before it is there: the start is cut short and rejects. */
  readonly ending?: AbortSignal
  /** The Worker's log, a line at a time. */
  readonly log: (level: string, message: string) => void
  /** Entry file of the Worker, from the top of the project. */
  readonly entry?: string
}

export interface Edge {
  readonly url: string
  readonly tlsUrl: string
  readonly caFile: string
  readonly stop: () => Promise<void>
}

export async function startEdge(options: EdgeOptions): Promise<Edge> {
  const closing: (() => unknown)[] = []
  const stop = async (): Promise<void> => {
    for (const close of closing.splice(0).reverse()) await close()
  }
  try {
    return { ...(await start(options, closing)), stop }
  } catch (error) {
    await stop()
    throw error
  }
}

/** `closing` is what was opened so far, the last one first to be closed. */
async function start(options: EdgeOptions, closing: (() => unknown)[]): Promise<Omit<Edge, 'stop'>> {
  const { ending = new AbortController().signal } = options
  ending.throwIfAborted()
  const state = stateFolder(options.persistTo)
  const lock = await claimState(state, ending)
  if (!lock.ok) {
    throw new CommandError(`another muster dev runs on ${state.root}; stop it or give this one its own --persist-to`)
  }
  closing.push(lock.value)

  // Ports first: a taken one is the most likely thing to go wrong, and they answer only once the Worker is behind them.
  const upstream = { port: 0, secret: randomBytes(32).toString('base64url') }
  const certificate = await serverCertificate(state)
  const open = async (server: Server, port: number, option: string): Promise<number> => {
    closing.push(() => closeServer(server))
    return listen(server, port, '127.0.0.1').catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EADDRINUSE' && error.code !== 'EACCES') throw error
      const why = error.code === 'EADDRINUSE' ? 'is taken' : 'may not be used'
      throw new CommandError(`port ${port} ${why}; choose another with ${option} (0: any)`)
    })
  }
  const port = await open(plainServer(upstream), options.port, '--port')
  const tlsPort = await open(tlsServer(upstream, certificate.key, certificate.chain), options.tlsPort, '--tls-port')

  const [project, { startRuntime }, script, ca] = await orEnd(ending, [
    readProject(options.environment, ending),
    // Miniflare takes as long to load as wrangler.toml to be read.
    import('./runtime.ts'),
    bundle(options.entry ?? join(PROJECT, 'src/worker/dev.ts'), ending),
    developmentCa(state),
  ])
  refuseUnbound(options.trust, shardsIn(project))
  const runtime = await startRuntime(state, {
    project,
    script,
    trust: options.trust,
    bindings: { ...ca, ...options.variables, EDGE_SECRET: upstream.secret, EDGE_CRONS: [...project.crons] },
    rateLimits: options.rateLimits,
    outbound: outboundWorker({ origins: options.origins, authorities: authoritiesOf(options.trust) }),
    log: options.log,
    ending,
  })
  closing.push(runtime.stop)
  const facts = {
    environment: environmentOf(options.environment),
    trustHash: options.trust.hash,
    shards: shardsIn(project),
  }
  closing.push(await serveState(state, runtime.query, facts))
  ending.throwIfAborted()
  upstream.port = runtime.port
  const url = `http://127.0.0.1:${port}`
  closing.push(runCrons(project.crons, (cron) => runScheduled(url, cron)))
  return { url, tlsUrl: `https://127.0.0.1:${tlsPort}`, caFile: certificate.caFile }
}

/** Such a Worker would refuse every runner. */
function refuseUnbound({ shards }: CompiledTrust, bound: readonly number[]): void {
  const missing = shards.find(({ shard }) => !bound.includes(shard))
  if (missing === undefined) return
  throw new CommandError(
    `the tenant ${missing.tenant} is in the database ${bindingOf(missing.shard)}, which wrangler.toml does not bind: see muster trust check`,
  )
}

/** The values of all of them; rejects at once where the signal fires first. */
function orEnd<T extends readonly unknown[]>(
  ending: AbortSignal,
  of: [...T],
): Promise<{ -readonly [K in keyof T]: Awaited<T[K]> }> {
  ending.throwIfAborted()
  const ended = new Promise<never>((_, reject) => ending.addEventListener('abort', () => reject(ending.reason)))
  return Promise.race([Promise.all(of), ended])
}

/** Hosts whose keys are fetched, each with the private CA that the trust file names for it. */
function authoritiesOf(trust: CompiledTrust): Map<string, string> {
  const authorities = new Map<string, string>()
  for (const { issuer, keys, ca } of trust.clusters) {
    if (ca === null) continue
    authorities.set(new URL(issuer).host, ca)
    if (keys.from === 'uri') authorities.set(new URL(keys.uri).host, ca)
  }
  return authorities
}
