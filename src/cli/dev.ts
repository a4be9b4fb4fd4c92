// `muster dev`: runs the whole of Muster on this machine, in the runtime that it is deployed to.

import { messageOf } from '../node/errors.ts'
import { quote } from '../protocol/characters.ts'
import type { CompiledTrust } from '../trust/compiled.ts'
import { bold, dim, EdgeLog } from './edge/log.ts'
import { requireCheckout } from './edge/project.ts'
import type { Edge } from './edge/start.ts'
import { stopSignal } from './edge/stop-signal.ts'
import { CommandError, command, print, type SharedOptions } from './operator/command.ts'

interface DevOptions extends SharedOptions {
  readonly port: number
  readonly tlsPort: number
  readonly var?: Record<string, string>
  readonly outbound?: ReadonlyMap<string, URL>
  readonly rateLimits?: true
  readonly demo?: true
}

export const devCommand = () =>
  command('dev', 'run the control plane on this machine', ['json', 'trust', 'persist-to', 'env'])
    .option('--port <port>', 'port for plain http (0: any)', toPort, 8787)
    .option('--tls-port <port>', 'port for TLS, which asks for client certificates (0: any)', toPort, 8788)
    .option('--var <KEY=VALUE>', 'set a variable of the Worker (repeatable)', addVariable)
    .option('--outbound <HOST=URL>', 'send what the Worker asks of HOST to URL instead (repeatable)', addOrigin)
    .option('--rate-limits', 'bind the rate limiters of wrangler.toml, which are off otherwise')
    .option('--demo', 'enroll a runner, and say what to try next (npm start)')
    .addHelpText('after', HELP)
    .action((options: DevOptions) => dev(options))

const HELP = `
The Worker runs in workerd with local D1, KV and Durable Objects. It ends on Ctrl-C; the state stays.

Example:
  muster dev --outbound sts.us-east-1.amazonaws.com=http://127.0.0.1:5000`

function toPort(text: string): number {
  const port = Number(text)
  if (!/^\d{1,5}$/.test(text) || port > 65_535) throw new CommandError(`${quote(text)} is not a port: 0 to 65535`)
  return port
}

function addVariable(text: string, variables: Record<string, string> = {}): Record<string, string> {
  const [key = '', value] = splitOnce(text)
  if (value === undefined || !/^[A-Za-z_][A-Za-z0-9_]*$/.test(key)) {
    // What follows the `=` is not printed, since it may be a secret.
    throw new CommandError(`--var takes KEY=VALUE: ${quote(key)} is no name, or has no value`)
  }
  return { ...variables, [key]: value }
}

function addOrigin(text: string, origins: ReadonlyMap<string, URL> = new Map()): ReadonlyMap<string, URL> {
  const [host = '', target] = splitOnce(text)
  const named = URL.parse(`https://${host}`)
  const origin = URL.parse(target ?? '')
  if (named !== null && host.toLowerCase() === `${named.host}:443`) {
    throw new CommandError(`--outbound ${host}=… names the port that every URL leaves out: write ${named.host}=…`)
  }
  if (target === undefined || named === null || named.host !== host.toLowerCase()) {
    throw new CommandError(`--outbound takes HOST=URL, not ${quote(text)}`)
  }
  if (origin === null || !['http:', 'https:'].includes(origin.protocol) || origin.href !== `${origin.origin}/`) {
    throw new CommandError(`--outbound ${host}=… takes an origin such as http://127.0.0.1:5000, not ${quote(target)}`)
  }
  return new Map([...origins, [named.host, origin]])
}

function splitOnce(text: string): [string, string?] {
  const at = text.indexOf('=')
  return at < 0 ? [text] : [text.slice(0, at), text.slice(at + 1)]
}

async function dev(options: DevOptions): Promise<void> {
  requireCheckout('muster dev')
  const ending = stopSignal()
  // Loading the rest takes a second.
  if (ending.aborted) return
  const log = new EdgeLog(options.json ?? false)
  // Loaded late, so that the other commands start without workerd and wrangler.
  const [{ startEdge }, { readTrust }] = await Promise.all([
    import('./edge/start.ts'),
    import('./operator/trust-file.ts'),
  ])
  const trust = await readTrust(options.trust)
  const edge = await startEdge({
    port: options.port,
    tlsPort: options.tlsPort,
    persistTo: options.persistTo,
    trust,
    variables: options.var ?? {},
    origins: options.outbound ?? new Map(),
    rateLimits: options.rateLimits ?? false,
    environment: options.env,
    ending,
    log: (level, message) => log.write('worker', level, message),
  }).catch((error: unknown) => {
    // Everything that was opened is closed. Modules that are still loading are not waited for.
    if (ending.aborted) process.exit()
    throw error
  })
  const { url, tlsUrl, caFile } = edge
  print(options, { event: 'ready', url, tlsUrl, caFile }, () => screen(url, tlsUrl, caFile))
  log.begin()
  const demo = options.demo ? await startDemonstration(options, edge, trust, log, ending) : null
  if (!ending.aborted) await new Promise((resolve) => ending.addEventListener('abort', resolve))
  await demo?.stop()
  await edge.stop()
}

/** Null where it could not be started; the edge runs on. */
async function startDemonstration(
  options: DevOptions,
  edge: Edge,
  trust: CompiledTrust,
  log: EdgeLog,
  ending: AbortSignal,
) {
  const [{ startDemo }, { mintWith }] = await Promise.all([import('./edge/demo.ts'), import('./token.ts')])
  const tenant = trust.tenants[0] ?? trust.bootstrapTenant
  try {
    const { persistTo, trust: file, env: environment } = options
    // In this process: as a command of its own it would take half a second more.
    const { minted } = await mintWith({ ...options, tenant, note: 'npm start' })
    const demo = await startDemo({
      edge,
      tenant,
      token: minted.token,
      persistTo,
      trust: file,
      environment,
      log,
      ending,
    })
    if (!options.json && !ending.aborted) process.stdout.write(demo.screen)
    return demo
  } catch (error) {
    if (ending.aborted) return null
    log.write('demo', 'error', `no runner was started: ${messageOf(error)}`)
    return null
  }
}

const screen = (url: string, tlsUrl: string, caFile: string): string => `${bold('muster dev is ready')}

  ${dim('http')}   ${url}
  ${dim('TLS')}    ${tlsUrl}
  ${dim('CA')}     ${caFile}   what clients trust for TLS
`
