// One run of a runner: liveness → config → secrets → enroll → connect → ready, then until it ends.

import { type Clock, milliseconds } from '../protocol/time.ts'
import { type Config, type Flags, readConfig, readInstanceId } from './config.ts'
import { objectionTo } from './environment/declared-identity.ts'
import { readSecrets, type Secrets } from './environment/secrets.ts'
import { Settings } from './environment/settings.ts'
import { standsOnCluster, tokenFileMistake } from './evidence/evidence.ts'
import { type Ending, EXIT, ending, NOT_PERSISTED } from './exit.ts'
import { type Health, serveHealth } from './health.ts'
import type { Identity } from './identity/identity.ts'
import { IdentityDir } from './identity/identity-dir.ts'
import { causeOf, jsonLog, type Log } from './log.ts'
import { type Post, poster } from './net/http.ts'
import { possess } from './renewal/boot.ts'
import type { Time } from './renewal/clock.ts'
import { openDoor } from './renewal/enroll-client.ts'
import { KUBERNETES_PATIENCE, type Policy } from './renewal/lifecycle.ts'
import { ProvisionedWatch } from './renewal/provisioned-watch.ts'
import { IdentityKeeper, type KeeperParts, type Possession } from './renewal/rotator.ts'
import { type Dial, dialer } from './tunnel/dial.ts'
import { Tunnel } from './tunnel/tunnel.ts'

/** Everything outside the runner; tests bring their own. */
export interface World {
  readonly env: NodeJS.ProcessEnv
  readonly time: Time
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

/** How long a token file that is missing or empty at boot is waited for. */
const TOKEN_FILE_GRACE = 10_000
const TOKEN_FILE_RETRY = milliseconds(250)
const ISSUE_ANOTHER = 'a provisioned certificate that cannot be renewed must be issued anew'

export class Agent {
  readonly #world: World
  readonly #flags: Flags
  readonly #events: AgentEvents
  readonly #stop = new AbortController()
  readonly #ended = Promise.withResolvers<Ending>()
  #health: Health | null = null
  #keeper: IdentityKeeper | null = null
  #tunnel: Tunnel | null = null
  #watch: ProvisionedWatch | null = null
  #keeperDone: Promise<unknown> | undefined
  #secrets: Secrets = new Map()
  #log: Log

  constructor(world: World, flags: Flags, events: AgentEvents) {
    this.#world = world
    this.#flags = flags
    this.#events = events
    this.#log = this.#logAs('')
  }

  /** The identity, while its certificate lives. */
  get identity(): Identity | null {
    return this.#keeper?.live ?? null
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
  async run(): Promise<Ending> {
    const end = await Promise.race([this.#boot().then((early) => early ?? this.#ended.promise), this.#ended.promise])
    for (const message of end.messages) this.#log('error', message, { exitCode: end.exitCode })
    this.#stop.abort()
    this.#watch?.stop()
    this.#keeper?.stop()
    await Promise.all([this.#tunnel?.stop(), this.#health?.close(), this.#keeperDone])
    if (end.exitCode === EXIT.stopped) this.#log('info', 'stopped')
    return end
  }

  stop(): void {
    this.#stop.abort()
    this.#ended.resolve(ending(EXIT.stopped))
  }

  /** The ending where the boot got no further. */
  async #boot(): Promise<Ending | null> {
    const world = this.#world
    const settings = new Settings(world.env)
    this.#log = this.#logAs(readInstanceId(new Settings(world.env)))
    await this.#serveHealth(settings)
    this.#enter('config')
    const config = readConfig(world.env, settings, this.#flags, world.certificates)
    const store = this.#openStore(config)
    const possessed = possess(config, store, this.#log, world)
    const { mistakes: usage = [] } = this.#flags
    const mistakes = [...usage, ...settings.mistakes, ...('faults' in possessed ? possessed.faults : [])]
    const possession = 'faults' in possessed ? null : possessed.possession
    if (possession === null && config.provisioned === null) {
      const missing = await this.#missingEvidence(config, mistakes.length === 0)
      if (missing !== null) mistakes.push(missing)
    }
    const objection = possession === null ? null : objectionTo(config, possession.identity)
    if (objection !== null) mistakes.push(objection)
    if (mistakes.length > 0) return ending(EXIT.config, ...mistakes)

    this.#enter('secrets')
    const secrets = await this.#readSecrets(config)
    if ('exitCode' in secrets) return secrets

    this.#enter('enroll')
    if (this.#stop.signal.aborted) return null
    const post = world.post ?? poster(config.network)
    await this.#enroll(config, post, store, possession)
    // What came in the meantime was kept; a runner that was told to stop does not connect any more.
    if (this.#stop.signal.aborted) return null
    this.#secrets = secrets

    this.#enter('connect')
    await this.#connect(config, post)
    return null
  }

  async #serveHealth(settings: Settings): Promise<void> {
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

  /** What is in a folder that cannot be written to is used all the same, and what follows it is not kept. */
  #openStore({ identityDir, provisioned }: Config): IdentityDir | null {
    if (identityDir === null || provisioned !== null) return null
    try {
      const store = IdentityDir.open(identityDir)
      if (store.unwritable !== null) this.#log('warn', NOT_PERSISTED, { cause: causeOf(store.unwritable) })
      return store
    } catch (error) {
      this.#log('warn', NOT_PERSISTED, { cause: causeOf(error) })
      return null
    }
  }

  /** A token file may come a moment after the container. */
  async #missingEvidence({ evidence }: Config, patient: boolean): Promise<string | null> {
    if (evidence.source === null) return evidence.mistake
    const { time } = this.#world
    for (let waited = 0; ; waited += TOKEN_FILE_RETRY) {
      const mistake = tokenFileMistake(evidence.source, time.now().wall)
      if (mistake === null || this.#stop.signal.aborted || !patient || waited >= TOKEN_FILE_GRACE) return mistake
      await time.sleep(TOKEN_FILE_RETRY, this.#stop.signal)
    }
  }

  async #readSecrets({ secretsDir, tenant }: Config): Promise<Secrets | Ending> {
    if (secretsDir === null || tenant === null) return new Map()
    try {
      return await readSecrets(secretsDir, tenant)
    } catch (error) {
      return ending(EXIT.config, `RUNNER_SECRETS_DIR cannot be read: ${causeOf(error)}`)
    }
  }

  /** Resolves with the first identity that may be used. */
  #enroll(config: Config, post: Post, store: IdentityDir | null, possession: Possession | null): Promise<void> {
    const { time, random } = this.#world
    const log = this.#log
    return new Promise((resolve) => {
      const parts: KeeperParts = {
        policy: policyOf(config, () => time.now().wall),
        evidence: config.evidence,
        door:
          config.enrollUrl === null ? null : openDoor(config.enrollUrl, post, () => time.now().wall, config.instanceId),
        store,
        time,
        random,
        log,
        objection: (identity) => objectionTo(config, identity),
        onIdentity: (identity, how) => {
          this.#events.onIdentity(identity, how)
          this.#tunnel?.wake()
          resolve()
        },
      }
      if (parts.policy.renews === false && config.provisioned === null) {
        log('warn', 'RUNNER_CERT_RENEWAL=off: this runner ends when its certificate does')
      }
      const keeper = new IdentityKeeper(parts, possession)
      this.#keeper = keeper
      if (config.provisioned !== null) this.#watch = new ProvisionedWatch(config, keeper, this.#world, log)
      const end = (told: Ending): void => {
        const unrenewed = config.provisioned !== null && told.exitCode === EXIT.lost
        this.#ended.resolve(unrenewed ? ending(told.exitCode, ...told.messages, ISSUE_ANOTHER) : told)
      }
      this.#keeperDone = keeper.run().then(end, this.#ended.reject)
      this.#watch?.run()
    })
  }

  /** Resolves when the tunnel is open for the first time. */
  #connect(config: Config, post: Post): Promise<void> {
    const { time, random } = this.#world
    const dial = this.#world.dial ?? dialer(config.tunnelUrl, config.network, post, config.instanceId)
    return new Promise((resolve) => {
      const tunnel = new Tunnel({
        dial,
        time,
        random,
        log: this.#log,
        identity: () => {
          this.#watch?.refresh()
          return this.#keeper?.live ?? null
        },
        onDoubt: () => this.#keeper?.renewNow(),
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
    return jsonLog(this.#world.write, instanceId, () => this.#world.time.now().wall)
  }
}

function policyOf({ evidence, provisioned, renews }: Config, clock: Clock): Policy {
  return {
    renews,
    enrollsAgain: provisioned === null && evidence.source !== null && evidence.mode !== 'bootstrap-token',
    waitsForOperator: provisioned !== null && !renews,
    get patience() {
      return standsOnCluster(evidence, clock()) ? { time: KUBERNETES_PATIENCE } : { tries: 3 }
    },
  }
}
