// Boots a runner and holds its parts together until it ends: liveness → config → secrets → enroll → connect → ready.

import { isKubernetesMode, MODES } from '../protocol/modes.ts'
import { err, ok, type Result } from '../protocol/result.ts'
import { type Clock, milliseconds } from '../protocol/time.ts'
import { type Config, readConfig, readInstanceId } from './config.ts'
import type { Flags } from './environment/arguments.ts'
import type { Clocks } from './environment/clock.ts'
import { readSecrets, type Secrets } from './environment/files.ts'
import { Settings } from './environment/settings.ts'
import type { EvidenceSource } from './evidence/evidence.ts'
import { EXIT, type Exit, exitWith } from './exit.ts'
import { type Health, serveHealth } from './health.ts'
import { type Identity, mismatchOf } from './identity/identity.ts'
import type { IdentityStore } from './identity/store.ts'
import { causeOf, jsonLog, type Log } from './log.ts'
import { type Post, poster } from './net/http.ts'
import { identityAtBoot, openStore } from './renewal/boot.ts'
import { enrollClient } from './renewal/enroll-client.ts'
import { KUBERNETES_PATIENCE, type Policy } from './renewal/lifecycle.ts'
import { ProvisionedWatch } from './renewal/provisioned-watch.ts'
import { type CurrentIdentity, Rotator, type RotatorParts } from './renewal/rotator.ts'
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
  /** Where provisioned certificates stand by default. */
  readonly certificates?: string
}

export interface AgentEvents {
  readonly onIdentity: (identity: Identity, how: 'enrolled' | 'renewed' | 'kept') => void
  /** At the end of the boot, and after each interruption. */
  readonly onReady: () => void
}

type BootState = 'liveness' | 'config' | 'secrets' | 'enroll' | 'connect' | 'ready'

/** How long a token file that is missing or empty at boot is waited for, in milliseconds. */
const TOKEN_FILE_GRACE = 10_000
const TOKEN_FILE_RETRY = milliseconds(250)
const ISSUE_ANOTHER = 'a provisioned certificate that cannot be renewed must be issued anew'

export class Agent {
  readonly #system: System
  readonly #flags: Flags
  readonly #events: AgentEvents
  readonly #stop = new AbortController()
  readonly #ended = Promise.withResolvers<Exit>()
  #health: Health | null = null
  #rotator: Rotator | null = null
  #tunnel: Tunnel | null = null
  #watch: ProvisionedWatch | null = null
  #rotatorDone: Promise<unknown> | undefined
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
    return this.#rotator?.live ?? null
  }

  /** Empty until the tenant is known to be the declared one. */
  get secrets(): Secrets {
    return this.#secrets
  }

  get unready(): string | null {
    if (this.identity === null) return 'no live certificate'
    return this.#tunnel?.open === true ? null : 'no open tunnel'
  }

  /** Runs to the end; never rejects but for a bug. */
  async run(): Promise<Exit> {
    const exit = await Promise.race([this.#boot().then((early) => early ?? this.#ended.promise), this.#ended.promise])
    for (const message of exit.messages) this.#log('error', message, { exitCode: exit.exitCode })
    this.#stop.abort()
    this.#watch?.stop()
    this.#rotator?.stop()
    await Promise.all([this.#tunnel?.stop(), this.#health?.close(), this.#rotatorDone])
    if (exit.exitCode === EXIT.stopped) this.#log('info', 'stopped')
    return exit
  }

  /** Has `run` come to its end. */
  stop(): void {
    this.#stop.abort()
    this.#ended.resolve(exitWith(EXIT.stopped))
  }

  /** The exit where the boot got no further. */
  async #boot(): Promise<Exit | null> {
    const system = this.#system
    const settings = new Settings(system.env)
    this.#log = this.#logAs(readInstanceId(new Settings(system.env)))
    await this.#openHealth(settings)
    this.#enter('config')
    const config = readConfig(system.env, settings, this.#flags, system.certificates)
    const store = config.provisioned === null ? openStore(config.identityDir, this.#log) : null
    const loaded = identityAtBoot(config, store, this.#log, system.clocks.now(), system.random())
    const current = loaded.ok ? loaded.value : null
    const { mistakes: usage = [] } = this.#flags
    const mistakes = [...usage, ...settings.mistakes, ...(loaded.ok ? [] : loaded.error)]
    if (current === null && config.provisioned === null) {
      const missing = await this.#missingEvidence(config, mistakes.length === 0)
      if (missing !== null) mistakes.push(missing)
    }
    const mismatch = current === null ? null : mismatchOf(config, current.identity)
    if (mismatch !== null) mistakes.push(mismatch)
    if (mistakes.length > 0) return exitWith(EXIT.config, ...mistakes)

    this.#enter('secrets')
    const secrets = await this.#readSecrets(config)
    if (!secrets.ok) return secrets.error

    this.#enter('enroll')
    if (this.#stop.signal.aborted) return null
    const post = system.post ?? poster(config.network)
    await this.#startRotator(config, post, store, current)
    // An identity that came after the stop was kept; no tunnel is opened any more.
    if (this.#stop.signal.aborted) return null
    this.#secrets = secrets.value

    this.#enter('connect')
    await this.#startTunnel(config, post)
    return null
  }

  async #openHealth(settings: Settings): Promise<void> {
    const port = settings.port('RUNNER_HEALTH_PORT')
    if (port !== null) {
      try {
        this.#health = await serveHealth(port, () => this.unready)
      } catch (error) {
        settings.mistakes.push(`RUNNER_HEALTH_PORT cannot be listened on: ${causeOf(error)}`)
      }
    }
    this.#enter('liveness', this.#health === null ? {} : { healthPort: this.#health.port })
  }

  /** A token file may come shortly after the container started. */
  async #missingEvidence({ evidence }: Config, patient: boolean): Promise<string | null> {
    if (!evidence.ok) return evidence.error
    const { clocks } = this.#system
    for (let waited = 0; ; waited += TOKEN_FILE_RETRY) {
      const mistake = evidence.value.missingAt(clocks.now().wall)
      if (mistake === null || this.#stop.signal.aborted || !patient || waited >= TOKEN_FILE_GRACE) return mistake
      await clocks.sleep(TOKEN_FILE_RETRY, this.#stop.signal)
    }
  }

  async #readSecrets({ secretsDir, tenant }: Config): Promise<Result<Secrets, Exit>> {
    if (secretsDir === null || tenant === null) return ok(new Map())
    try {
      return ok(await readSecrets(secretsDir, tenant))
    } catch (error) {
      return err(exitWith(EXIT.config, `RUNNER_SECRETS_DIR cannot be read: ${causeOf(error)}`))
    }
  }

  /** Resolves with the first identity that may be used. */
  #startRotator(
    config: Config,
    post: Post,
    store: IdentityStore | null,
    current: CurrentIdentity | null,
  ): Promise<void> {
    const { clocks, random } = this.#system
    const log = this.#log
    const clock: Clock = () => clocks.now().wall
    const { enrollUrl, evidence, instanceId, network, provisioned } = config
    return new Promise((resolve) => {
      const parts: RotatorParts = {
        policy: policyOf(config, clock),
        evidence,
        client: enrollUrl === null ? null : enrollClient(enrollUrl, network, post, clock, instanceId),
        store,
        clocks,
        random,
        log,
        mismatch: (identity) => mismatchOf(config, identity),
        onIdentity: (identity, how) => {
          this.#events.onIdentity(identity, how)
          this.#tunnel?.wake()
          resolve()
        },
      }
      if (!config.renews && provisioned === null) {
        log('warn', 'RUNNER_CERT_RENEWAL=off: this runner ends when its certificate does')
      }
      const rotator = new Rotator(parts, current)
      this.#rotator = rotator
      if (provisioned !== null) {
        const { renews } = config
        this.#watch = new ProvisionedWatch({ source: provisioned, declared: config, renews, rotator, clocks, log })
      }
      const end = (exit: Exit): void => {
        const unrenewed = provisioned !== null && exit.exitCode === EXIT.lost
        this.#ended.resolve(unrenewed ? exitWith(exit.exitCode, ...exit.messages, ISSUE_ANOTHER) : exit)
      }
      this.#rotatorDone = rotator.run().then(end, this.#ended.reject)
      this.#watch?.run()
    })
  }

  /** Resolves when the tunnel is open for the first time. */
  #startTunnel(config: Config, post: Post): Promise<void> {
    const { clocks, random } = this.#system
    const dial = this.#system.dial ?? dialer(config.tunnelUrl, config.network, post, config.instanceId)
    return new Promise((resolve) => {
      const tunnel = new Tunnel({
        dial,
        clocks,
        random,
        log: this.#log,
        identity: () => {
          this.#watch?.refresh()
          return this.#rotator?.live ?? null
        },
        onRejected: () => this.#rotator?.renewNow(),
        onChange: (open) => {
          if (this.#stop.signal.aborted) return
          if (!open) return this.#log('warn', 'not ready: no open tunnel')
          this.#enter('ready')
          this.#events.onReady()
          resolve()
        },
        onDrain: () => {
          this.#log('info', 'drained: an operator asked this runner to finish')
          this.stop()
        },
      })
      this.#tunnel = tunnel
      tunnel.run().catch(this.#ended.reject)
    })
  }

  #enter(state: BootState, fields: Readonly<Record<string, number>> = {}): void {
    this.#log('info', state, { state, ...fields })
  }

  #logAs(instanceId: string): Log {
    return jsonLog(this.#system.write, instanceId, () => this.#system.clocks.now().wall)
  }
}

function policyOf({ evidence, provisioned, renews }: Config, clock: Clock): Policy {
  const modeOf = ({ modeAt }: EvidenceSource) => modeAt(clock())
  return {
    renews,
    enrollsAgain: provisioned === null && evidence.ok && MODES[modeOf(evidence.value)].reusable,
    waitsForOperator: provisioned !== null && !renews,
    get patience() {
      return evidence.ok && isKubernetesMode(modeOf(evidence.value)) ? { time: KUBERNETES_PATIENCE } : { tries: 3 }
    },
  }
}
