// `muster dev`: the whole of Muster on this machine, in the runtime that it is deployed to.

import { Option } from 'commander'
import { CommandError, command, type SharedOptions } from './command.ts'

interface DevOptions extends SharedOptions {
  readonly port: number
  readonly tlsPort: number
  readonly var?: Record<string, string>
  readonly outbound?: ReadonlyMap<string, URL>
  readonly rateLimits?: true
  readonly demo?: true
}

export const devCommand = () =>
  command('dev', 'run everything on this machine')
    .option('--port <port>', 'port for plain http (0: any)', toPort, 8787)
    .option('--tls-port <port>', 'port for TLS, which asks for client certificates (0: any)', toPort, 8788)
    .option('--var <KEY=VALUE>', 'set a variable of the Worker (repeatable)', addVariable)
    .option('--outbound <HOST=URL>', 'answer what the Worker asks of HOST from URL (repeatable)', addOrigin)
    .option('--rate-limits', 'bind the rate limiters of wrangler.toml')
    .addOption(new Option('--demo', 'enroll a runner, and say what to try next'))
    .action((options: DevOptions) => dev(options))

function toPort(text: string): number {
  const port = Number(text)
  if (!/^\d{1,5}$/.test(text) || port > 65_535)
    throw new CommandError(`${JSON.stringify(text)} is not a port: 0 to 65535`)
  return port
}

function addVariable(text: string, variables: Record<string, string> = {}): Record<string, string> {
  const [key = '', value] = splitOnce(text)
  if (value === undefined || !/^[A-Za-z_][A-Za-z0-9_]*$/.test(key)) {
    throw new CommandError(`--var takes KEY=VALUE, not ${JSON.stringify(text)}`)
  }
  return { ...variables, [key]: value }
}

function addOrigin(text: string, origins: ReadonlyMap<string, URL> = new Map()): ReadonlyMap<string, URL> {
  const [host = '', target] = splitOnce(text)
  const named = URL.parse(`https://${host}`)
  const origin = URL.parse(target ?? '')
  if (target === undefined || named === null || named.host !== host.toLowerCase()) {
    throw new CommandError(`--outbound takes HOST=URL, not ${JSON.stringify(text)}`)
  }
  if (origin === null || !['http:', 'https:'].includes(origin.protocol) || origin.href !== `${origin.origin}/`) {
    throw new CommandError(
      `--outbound ${host}=… takes an origin such as http://127.0.0.1:5000, not ${JSON.stringify(target)}`,
    )
  }
  return new Map([...origins, [named.host, origin]])
}

function splitOnce(text: string): [string, string?] {
  const at = text.indexOf('=')
  return at < 0 ? [text] : [text.slice(0, at), text.slice(at + 1)]
}

async function dev(options: DevOptions): Promise<void> {
  // Loaded here: the other commands start without workerd and wrangler.
  const [{ startEdge }, { readTrust }] = await Promise.all([import('./edge/start.ts'), import('./trust.ts')])
  const stopped = stopSignal()
  const log = new WorkerLog(options)
  const edge = await startEdge({
    port: options.port,
    tlsPort: options.tlsPort,
    persistTo: options.persistTo,
    trust: await readTrust(options.trust),
    variables: options.var ?? {},
    origins: options.outbound ?? new Map(),
    rateLimits: options.rateLimits ?? false,
    environment: options.env,
    log: (level, message) => log.write(level, message),
  })
  const { url, tlsUrl, caFile } = edge
  process.stdout.write(
    options.json ? `${JSON.stringify({ event: 'ready', url, tlsUrl, caFile })}\n` : screen(url, tlsUrl, caFile),
  )
  log.begin()
  await stopped
  await edge.stop()
}

/** Resolves on the first SIGINT, SIGTERM or SIGHUP. */
function stopSignal(): Promise<void> {
  return new Promise((resolve) => {
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => resolve())
  })
}

const screen = (url: string, tlsUrl: string, caFile: string): string => `muster dev is ready

  http   ${url}
  TLS    ${tlsUrl}
  trust  ${caFile}
`

/** Lines of the Worker, held back until the ready line is out. */
class WorkerLog {
  readonly #json: boolean
  #held: string[] | null = []

  constructor(options: DevOptions) {
    this.#json = options.json ?? false
    // Whoever read the ready line may have closed the pipe: the edge goes on.
    process.stdout.on('error', () => {})
  }

  write(level: string, message: string): void {
    const line = this.#json && !isJsonObject(message) ? JSON.stringify({ level, message }) : message
    if (this.#held === null) process.stdout.write(`${line}\n`)
    else this.#held.push(line)
  }

  begin(): void {
    for (const line of this.#held ?? []) process.stdout.write(`${line}\n`)
    this.#held = null
  }
}

function isJsonObject(text: string): boolean {
  try {
    return text.startsWith('{') && !text.includes('\n') && typeof JSON.parse(text) === 'object'
  } catch {
    return false
  }
}
