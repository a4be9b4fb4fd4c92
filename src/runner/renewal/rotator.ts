// Enrolls and renews when the lifecycle says so, and keeps the identity in memory and on disk.

import { type EpochSeconds, milliseconds } from '../../protocol/time.ts'
import { type ClockReading, type Clocks, TICK } from '../environment/clock.ts'
import { EXIT, type Exit, exitWith } from '../environment/exit.ts'
import type { Log } from '../environment/log.ts'
import type { EvidenceConfig } from '../evidence/registry.ts'
import type { Identity } from '../identity/identity.ts'
import type { RequestKey } from '../identity/keys.ts'
import type { IdentityStore } from '../identity/store.ts'
import { AttemptLog } from './attempt-log.ts'
import type { BootIdentity, CurrentIdentity } from './boot.ts'
import { CopyOnDisk } from './copy-on-disk.ts'
import type { Attempt, EnrollClient } from './enroll-client.ts'
import { type Enrolled, lifeFrom } from './enrolled.ts'
import {
  afterFailure,
  afterSuccess,
  isLive,
  lifeLeft,
  nextStep,
  type Policy,
  persistedLifetime,
  RENEWAL_WINDOW,
  type State,
  type Step,
  type Work,
  withLifeLeft,
  withRenewalDue,
} from './lifecycle.ts'
import { RequestKeys } from './request-keys.ts'

export interface RotatorParts {
  readonly policy: Policy
  readonly evidence: EvidenceConfig
  /** Null: nothing is asked of the control plane but a tunnel. */
  readonly client: EnrollClient | null
  readonly store: IdentityStore | null
  readonly clocks: Clocks
  /** In [0, 1). */
  readonly random: () => number
  readonly log: Log
  /** Why an identity must not be used here (its tenant or runner ID was declared otherwise), or null. */
  readonly mismatch: (identity: Identity) => string | null
  /** An identity may be used from now on. `kept`: it was there at boot; `renewed`: it replaces another one. */
  readonly onIdentity: (identity: Identity, how: 'enrolled' | 'renewed' | 'kept') => void
}

/** A renewed identity that is not on disk yet. */
interface Successor {
  readonly identity: Identity
  readonly state: State
}

/** With this little left, the identity on disk is replaced by one that could not be written. */
const LAST_MINUTE = milliseconds(60_000)

const WAIT: Step = { do: 'wait', for: TICK }

/** How long a stop waits for the answer of an attempt under way: a certificate may be in it. */
const STOP_GRACE = milliseconds(3000)

export class Rotator {
  readonly #parts: RotatorParts
  readonly #attemptLog: AttemptLog
  readonly #disk: CopyOnDisk
  readonly #requestKeys: RequestKeys
  #state: State
  #identity: Identity | null
  #expired: Identity | null
  /** Not used before it is written, so that the identity on disk may still renew. */
  #successor: Successor | null = null
  /** False until `onIdentity` was called: a persisted identity waits for its first renewal. */
  #announced = false
  #wake = new AbortController()
  readonly #giveUp = new AbortController()
  #stopping = false

  constructor(parts: RotatorParts, { current, expired }: BootIdentity) {
    this.#parts = parts
    this.#attemptLog = new AttemptLog(parts.log)
    this.#state = { lifetime: current?.lifetime ?? null, request: null }
    this.#identity = current?.identity ?? null
    this.#expired = expired
    this.#disk = new CopyOnDisk(parts.store, parts.log, this.#identity ?? expired)
    this.#requestKeys = new RequestKeys(parts.store, parts.log)
  }

  /** The identity, while its certificate lives. */
  get live(): Identity | null {
    return isLive(this.#state.lifetime, this.#parts.clocks.now()) ? this.#identity : null
  }

  /** Runs until the identity is lost for good or `stop` is called. */
  async run(): Promise<Exit> {
    const { clocks, policy } = this.#parts
    const { lifetime } = this.#state
    if (lifetime !== null && !(lifetime.fromDisk && policy.renews)) this.#announce('kept')
    while (!this.#stopping) {
      const now = clocks.now()
      if (this.#disk.writeAgain() || !this.#mayWait(now)) this.#useSuccessor()
      const step = this.#successor === null ? nextStep(policy, this.#state, now) : WAIT
      if (step.do === 'exit') return step.exit
      if (step.do === 'wait') {
        await clocks.sleep(milliseconds(Math.min(step.for, TICK)), this.#wake.signal)
        if (this.#wake.signal.aborted) this.#wake = new AbortController()
        continue
      }
      const exit = await this.#attempt(step.work)
      if (exit !== null) return exit
    }
    return exitWith(EXIT.stopped)
  }

  /** Renews now, unless an attempt is under way: the control plane refused the certificate. */
  renewNow(): void {
    if (this.#successor === null) this.#state = withRenewalDue(this.#state)
    else this.#useSuccessor()
    this.#wake.abort()
  }

  /** Goes on with the certificate by which an operator replaced a provisioned one. */
  replace({ identity, lifetime }: CurrentIdentity): void {
    this.#identity = identity
    this.#state = { lifetime, request: null }
    this.#requestKeys.drop()
    this.#announce('renewed')
    this.#wake.abort()
  }

  stop(): void {
    this.#stopping = true
    this.#wake.abort()
    setTimeout(() => this.#giveUp.abort(), STOP_GRACE).unref()
  }

  async #attempt(work: Work): Promise<Exit | null> {
    const { clocks, evidence, policy, random } = this.#parts
    if (work === 'enroll' && !evidence.ok)
      return exitWith(EXIT.config, ...(evidence.error === null ? [] : [evidence.error]))
    const subject = this.#identity
    const attempt = await this.#untilGivenUp(work, await this.#requestKeys.keyFor(work))
    // An operator replaced the certificate meanwhile: the answer is about the former one.
    if (attempt === null || this.#identity !== subject) return null
    this.#attemptLog.skew(attempt)
    const { result } = attempt
    if (result.ok) return this.#adopt(result.value, work)

    const { serverTime } = result.error
    const now = clocks.now()
    if (serverTime !== null && subject !== null) {
      this.#state = withLifeLeft(this.#state, lifeFrom(subject, serverTime), now)
    }
    if (result.error.verdict === 'credential' && this.#revived(serverTime, now)) return null
    const before = this.#state
    const after = afterFailure(policy, before, { ...result.error, work }, now, random())
    this.#attemptLog.failure(work, result.error, attempt, after.ok ? after.value : null)
    if (!after.ok) {
      if (work === 'enroll') this.#tidy((store) => store.forgetRequest())
      return after.error
    }
    this.#state = after.value
    // The enrollment that a former process made with this key has renewed meanwhile. Reusable evidence enrolls with
    // another key.
    const isRefused = result.error.verdict === 'credential'
    if (isRefused && this.#requestKeys.isOld && policy.enrollsAgain) this.#requestKeys.drop()
    if (before.lifetime !== null && after.value.lifetime === null) {
      this.#identity = null
      this.#tidy((store) => store.setAside())
    } else if (!this.#announced && this.live !== null) {
      // A persisted identity whose renewal got no verdict serves while its certificate lives.
      this.#announce('kept')
    }
    return null
  }

  /** The control plane's time shows that the identity on disk may still renew: goes on with it. Once. */
  #revived(serverTime: EpochSeconds | null, now: ClockReading): boolean {
    const identity = this.#expired
    this.#expired = null
    if (identity === null || serverTime === null || this.#parts.mismatch(identity) !== null) return false
    const length = lifeFrom(identity, serverTime)
    if (length + RENEWAL_WINDOW < 0) return false
    this.#parts.log('warn', "the persisted identity is inside its window by the control plane's clock — renewing")
    this.#identity = identity
    this.#state = { lifetime: persistedLifetime(now, length), request: null }
    return true
  }

  /** Null where the runner was stopped before the attempt, or while it waited for the answer. */
  async #untilGivenUp(work: Work, key: RequestKey): Promise<Attempt | null> {
    if (this.#stopping) return null
    const { signal } = this.#giveUp
    const givenUp = new Promise<null>((resolve) => signal.addEventListener('abort', () => resolve(null)))
    return Promise.race([this.#ask(work, key, signal), givenUp])
  }

  async #ask(work: Work, key: RequestKey, signal: AbortSignal): Promise<Attempt | null> {
    const { client, evidence } = this.#parts
    if (client === null) return null
    if (work === 'renew' && this.#identity !== null) return client.renew(this.#identity, key, signal)
    return evidence.ok ? client.enroll(evidence.value, key, signal) : null
  }

  /** Persists the new identity, then uses it. */
  #adopt({ identity, serverTime }: Enrolled, work: Work): Exit | null {
    const { clocks, mismatch, random } = this.#parts
    const now = clocks.now()
    const mayWait = work === 'renew' && this.#mayWait(now)
    const written = this.#disk.write(identity, mayWait)
    this.#requestKeys.drop()
    const how = work === 'enroll' ? 'enrolled' : 'renewed'
    this.#attemptLog.success(how, identity)
    const mistake = mismatch(identity)
    if (mistake !== null) return exitWith(EXIT.config, mistake)
    this.#successor = { identity, state: afterSuccess(lifeFrom(identity, serverTime), now, random(), this.#state) }
    if (written || !mayWait) this.#useSuccessor(how)
    else if (!this.#announced) this.#announce('kept')
    return null
  }

  /** Whether a new identity waits until it is written: the one on disk is in use and has some time left. */
  #mayWait(now: ClockReading): boolean {
    const { lifetime } = this.#state
    return lifetime !== null && this.#disk.has(this.#identity) && lifeLeft(lifetime, now) > LAST_MINUTE
  }

  #useSuccessor(how: 'enrolled' | 'renewed' = 'renewed'): void {
    if (this.#successor === null) return
    const { identity, state } = this.#successor
    this.#successor = null
    if (!this.#disk.has(identity)) this.#disk.dropFormer()
    this.#identity = identity
    this.#state = state
    this.#announce(how)
  }

  #announce(how: 'enrolled' | 'renewed' | 'kept'): void {
    if (this.#identity === null) return
    this.#announced = true
    this.#parts.onIdentity(this.#identity, how)
  }

  /** A change that may fail silently: at worst a file stays that the next boot ignores. */
  #tidy(change: (store: IdentityStore) => void): void {
    try {
      if (this.#parts.store !== null) change(this.#parts.store)
    } catch {
      // Logged already when writing failed, or at the next boot.
    }
  }
}
