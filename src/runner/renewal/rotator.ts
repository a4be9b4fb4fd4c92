// Enrolls and renews when the lifecycle says so, and keeps the identity in memory and on disk.

import { messageOf } from '../../node/errors.ts'
import { ok } from '../../protocol/result.ts'
import { milliseconds, toEpochSeconds } from '../../protocol/time.ts'
import { type Clocks, TICK } from '../environment/clock.ts'
import { EXIT, type Exit, exitWith } from '../environment/exit.ts'
import type { Log } from '../environment/log.ts'
import type { EvidenceConfig } from '../evidence/registry.ts'
import type { Identity } from '../identity/identity.ts'
import { newRequestKey, type RequestKey } from '../identity/keys.ts'
import { type IdentityStore, NOT_PERSISTED } from '../identity/store.ts'
import { AttemptLog } from './attempt-log.ts'
import type { Attempt, EnrollClient } from './enroll-client.ts'
import { type Enrolled, lifeFrom } from './enrolled.ts'
import {
  afterAttempt,
  isLive,
  type Lifetime,
  nextStep,
  type Policy,
  type State,
  type Work,
  withRenewalDue,
} from './lifecycle.ts'

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

export interface CurrentIdentity {
  readonly identity: Identity
  readonly lifetime: Lifetime
}

/** How long a stop waits for the answer of an attempt under way: a certificate may be in it. In milliseconds. */
const STOP_GRACE = 3000

export class Rotator {
  readonly #parts: RotatorParts
  readonly #attemptLog: AttemptLog
  #state: State
  #identity: Identity | null
  #request: { readonly work: Work; readonly key: RequestKey } | null = null
  /** False until `onIdentity` was called: a persisted identity waits for its first renewal. */
  #announced = false
  #wake = new AbortController()
  readonly #giveUp = new AbortController()
  #stopping = false

  constructor(parts: RotatorParts, current: CurrentIdentity | null) {
    this.#parts = parts
    this.#attemptLog = new AttemptLog(parts.log)
    this.#state = { lifetime: current?.lifetime ?? null, request: null }
    this.#identity = current?.identity ?? null
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
      const step = nextStep(policy, this.#state, clocks.now())
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
    this.#state = withRenewalDue(this.#state)
    this.#wake.abort()
  }

  /** Goes on with the certificate that an operator put in the place of a provisioned one. */
  replace({ identity, lifetime }: CurrentIdentity): void {
    this.#identity = identity
    this.#state = { lifetime, request: null }
    this.#request = null
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
    const attempt = await this.#untilGivenUp(work, await this.#keyFor(work))
    // An operator replaced the certificate meanwhile: the answer is about the former one.
    if (attempt === null || this.#identity !== subject) return null
    this.#attemptLog.skew(attempt)
    const { result } = attempt
    if (result.ok) return this.#adopt(result.value, work)

    const before = this.#state
    const after = afterAttempt(policy, before, work, result, clocks.now(), random())
    this.#attemptLog.failure(work, result.error, attempt, after.ok ? after.value : null)
    if (!after.ok) {
      if (work === 'enroll') this.#tidy((store) => store.forgetRequest())
      return after.error
    }
    this.#state = after.value
    if (before.lifetime !== null && after.value.lifetime === null) {
      this.#identity = null
      this.#tidy((store) => store.setAside())
    } else if (!this.#announced && this.live !== null) {
      // A persisted identity whose renewal got no verdict serves while its certificate lives.
      this.#announce('kept')
    }
    return null
  }

  /** Null where a stop came before the attempt, or waited for its answer in vain. */
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

  /** One key and CSR for all attempts of one request; an enrollment's are on disk before they are sent. */
  async #keyFor(work: Work): Promise<RequestKey> {
    if (this.#request?.work === work) return this.#request.key
    const { clocks, store } = this.#parts
    const now = toEpochSeconds(clocks.now().wall)
    const kept = work === 'enroll' ? (store?.loadRequest(now) ?? null) : null
    const key = kept ?? (await newRequestKey())
    if (work === 'enroll' && kept === null) this.#persist((store) => store.saveRequest(key, now))
    this.#request = { work, key }
    return key
  }

  /** Persists the new identity, then uses it. */
  #adopt({ identity, serverTime }: Enrolled, work: Work): Exit | null {
    const { clocks, mismatch, policy, random } = this.#parts
    const now = clocks.now()
    this.#persist((store) => store.save(identity))
    this.#tidy((store) => store.forgetRequest())
    this.#request = null
    const how = work === 'enroll' ? 'enrolled' : 'renewed'
    this.#attemptLog.success(how, identity)
    const mistake = mismatch(identity)
    if (mistake !== null) return exitWith(EXIT.config, mistake)
    const life = ok(lifeFrom(identity, serverTime))
    const after = afterAttempt(policy, this.#state, work, life, now, random())
    if (!after.ok) return after.error
    this.#state = after.value
    this.#identity = identity
    this.#announce(how)
    return null
  }

  #announce(how: 'enrolled' | 'renewed' | 'kept'): void {
    if (this.#identity === null) return
    this.#announced = true
    this.#parts.onIdentity(this.#identity, how)
  }

  #persist(write: (store: IdentityStore) => void): void {
    const { log, store } = this.#parts
    if (store === null) return
    try {
      write(store)
    } catch (error) {
      // For a folder that could not be written at boot this was logged then.
      if (store.unwritable === null) log('warn', NOT_PERSISTED, { cause: messageOf(error) })
    }
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
