// Boots a runner state by state (liveness → config → secrets → enroll → connect → ready), and stops at its end what the
// boot started.

import { messageOf } from '../node/errors.ts'
import { err, ok, type Result } from '../protocol/result.ts'
import { type Config, readConfig, readInstanceId } from './config.ts'
import type { Flags } from './environment/arguments.ts'
import type { Clocks } from './environment/clock.ts'
import { EXIT, type Exit, exitWith } from './environment/exit.ts'
import { jsonLog, type Log } from './environment/log.ts'
import { readSecrets, type Secrets } from './environment/secrets.ts'
import { Settings } from './environment/settings.ts'
import { type Identity, mismatchOf } from './identity/identity.ts'
import type { IdentityStore } from './identity/store.ts'
import { type Health, serveHealth } from './net/health.ts'
import { type Post, poster } from './net/http.ts'
import { type BootIdentity, identityAtBoot, openStore, waitForEvidence } from './renewal/boot.ts'
import { Renewal } from './renewal/renewal.ts'
import { type Dial, dialer } from './tunnel/dial.ts'
import { Tunnel } from './tunnel/tunnel.ts'

/** Everything outside the runner; tests bring their own. */
export interface System {
  readonly env: NodeJS.ProcessEnv
  readonly clocks: Clocks
  /** In [0, 1). */
  readonly random: () => number
  /** Takes the log, a line at a time with its line end. */
  readonly write: (line: string) => void
  readonly post?: Post
  readonly dial?: Dial
  /** The default folder of a provisioned certificate. */
  readonly certificates?: string
}

export interface AgentEvents {
  readonly onIdentity: (identity: Identity, how: 'enrolled' | 'renewed' | 'kept') => void
  /** At the end of the boot, and after each interruption. */
  readonly onReady: () => void
}

/** The states in order, and what the log says of each. */
const BOOT_STATES = {
  liveness: 'the runner starts',
  config: 'reading the configuration',
  secrets: 'reading the secrets',
  enroll: 'getting a certificate',
  connect: 'opening the tunnel',
  ready: 'ready: the certificate lives and the tunnel is open',
} as const

/** What the state `config` finds out. */
interface Configured {
  readonly config: Config
  readonly store: IdentityStore | null
  /** The identity that the runner has already. */
  readonly found: BootIdentity
}

export class Agent {
  readonly #system: System
  readonly #flags: Flags
  readonly #events: AgentEvents
  readonly #stop = new AbortController()
  readonly #ended = Promise.withResolvers<Exit>()
  #health: Health | null = null
  #renewal: Renewal | null = null
  #tunnel: Tunnel | null = null
  #secrets: Secrets = new Map()
  #log: Log

  constructor(system: System, flags: Flags, events: AgentEvents) {
    this.#system = system
    this.#flags = flags
    this.#events = events
    this.#log = this.#logAs('')
  }

  /** The identity, while its certificate lives. */
  get identity(): Identity | null {
    return this.#renewal?.live ?? null
  }

  /** Empty until the tenant is known to be the declared one. */
  get secrets(): Secrets {
    return this.#secrets
  }

  /** Why the runner is not ready, or null. */
  get unready(): string | null {
    if (this.identity === null) return 'no live certificate'
    return this.#tunnel?.open === true ? null : 'no open tunnel'
  }

  /** Runs to the end; never rejects but for a bug. */
  async run(): Promise<Exit> {
    const exit = await Promise.race([this.#boot().then((early) => early ?? this.#ended.promise), this.#ended.promise])
    for (const message of exit.messages) this.#log('error', message, { exitCode: exit.exitCode })
    this.#stop.abort()
    await Promise.all([this.#renewal?.stop(), this.#tunnel?.stop(), this.#health?.close()])
    if (exit.exitCode === EXIT.stopped) this.#log('info', 'stopped')
    return exit
  }

  /** Ends `run`. */
  stop(): void {
    this.#stop.abort()
    this.#ended.resolve(exitWith(EXIT.stopped))
  }

  /** Goes through the states up to `connect`; the tunnel enters `ready`. Gives the exit where the boot fails. */
  async #boot(): Promise<Exit | null> {
    const settings = new Settings(this.#system.env)
    // `#configure` reads it again and reports what is wrong with it.
    this.#log = this.#logAs(readInstanceId(new Settings(this.#system.env)))
    await this.#openHealth(settings)
    this.#enter('liveness', this.#health === null ? {} : { healthPort: this.#health.port })

    this.#enter('config')
    const configured = await this.#configure(settings)
    if (!configured.ok) return exitWith(EXIT.config, ...configured.error)
    const { config } = configured.value

    this.#enter('secrets')
    const secrets = readSecrets(config.secretsDir, config.tenant)
    if (!secrets.ok) return exitWith(EXIT.config, secrets.error)

    this.#enter('enroll')
    if (this.#stop.signal.aborted) return null
    const post = this.#system.post ?? poster(config.network)
    await this.#startRenewal(configured.value, post)
    // An identity that came after the stop was kept; no tunnel is opened any more.
    if (this.#stop.signal.aborted) return null
    this.#secrets = secrets.value

    this.#enter('connect')
    this.#startTunnel(config, post)
    return null
  }

  async #openHealth(settings: Settings): Promise<void> {
    const port = settings.port('RUNNER_HEALTH_PORT')
    if (port === null) return
    try {
      this.#health = await serveHealth(port, () => this.unready)
    } catch (error) {
      settings.mistakes.push(`RUNNER_HEALTH_PORT cannot be listened on: ${messageOf(error)}`)
    }
  }

  /** Reads the configuration and the identity; the error is every mistake. */
  async #configure(settings: Settings): Promise<Result<Configured, readonly string[]>> {
    const { certificates, clocks, env, random } = this.#system
    const config = readConfig(env, settings, this.#flags, this.#log, certificates)
    for (const warning of settings.warnings) this.#log('warn', warning)
    const store = config.provisioned === null ? openStore(config.identityDir, this.#log) : null
    const loaded = identityAtBoot(config, store, this.#log, clocks.now(), random())
    const found = loaded.ok ? loaded.value : { current: null, expired: null }
    const { current } = found
    const { mistakes: usage = [] } = this.#flags
    const mistakes = [...usage, ...settings.mistakes, ...(loaded.ok ? [] : loaded.error)]
    if (current === null && config.provisioned === null) {
      const patient = mistakes.length === 0
      const missing = await waitForEvidence(config.evidence, clocks, patient, this.#stop.signal)
      if (missing !== null) mistakes.push(missing)
    }
    const mismatch = current === null ? null : mismatchOf(config, current.identity)
    if (mismatch !== null) mistakes.push(mismatch)
    return mistakes.length === 0 ? ok({ config, store, found }) : err(mistakes)
  }

  /** Resolves with the first identity that may be used. */
  #startRenewal({ config, store, found }: Configured, post: Post): Promise<void> {
    const { clocks, random } = this.#system
    return new Promise((resolve) => {
      const onIdentity: AgentEvents['onIdentity'] = (identity, how) => {
        this.#events.onIdentity(identity, how)
        this.#tunnel?.wake()
        resolve()
      }
      this.#renewal = new Renewal(config, { clocks, random, log: this.#log, post, store, onIdentity }, found)
      this.#renewal.keepAlive().then(this.#ended.resolve, this.#ended.reject)
    })
  }

  #startTunnel({ instanceId, network, tunnelUrl }: Config, post: Post): void {
    const { clocks, random } = this.#system
    this.#tunnel = new Tunnel({
      dial: this.#system.dial ?? dialer(tunnelUrl, network, post, instanceId),
      clocks,
      random,
      log: this.#log,
      identity: () => this.#renewal?.refreshed() ?? null,
      onRejected: () => this.#renewal?.renewNow(),
      onChange: (open) => {
        if (this.#stop.signal.aborted) return
        if (!open) return this.#log('warn', 'not ready: no open tunnel')
        this.#enter('ready')
        this.#events.onReady()
      },
      onDrain: () => {
        this.#log('info', 'drained: an operator asked this runner to finish')
        this.stop()
      },
    })
    this.#tunnel.run().catch(this.#ended.reject)
  }

  #enter(state: keyof typeof BOOT_STATES, fields: Readonly<Record<string, number>> = {}): void {
    this.#log('info', BOOT_STATES[state], { state, ...fields })
  }

  #logAs(instanceId: string): Log {
    return jsonLog(this.#system.write, instanceId, () => this.#system.clocks.now().wall)
  }
}
