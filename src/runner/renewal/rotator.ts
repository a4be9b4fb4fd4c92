// Keeps an identity alive: drives the state machine against the clock, the control plane and the disk.

import { milliseconds, rfc3339, type Seconds, seconds, toEpochSeconds } from '../../protocol/time.ts'
import type { EvidenceConfig } from '../evidence/evidence.ts'
import { type Ending, EXIT, ending, NOT_PERSISTED } from '../exit.ts'
import type { Identity } from '../identity/identity.ts'
import type { IdentityDir } from '../identity/identity-dir.ts'
import { newRequestKey, type RequestKey } from '../identity/keys.ts'
import { causeOf, type Fields, type Log } from '../log.ts'
import type { Moment, Time } from './clock.ts'
import type { Attempted, Door } from './enroll-client.ts'
import {
  afterAttempt,
  askRenewal,
  type Held,
  isLive,
  nextStep,
  type Outcome,
  type Policy,
  type State,
  TICK,
  type Work,
} from './lifecycle.ts'
import { lifeLeft, type Refused, type Reply } from './response.ts'

export interface KeeperParts {
  readonly policy: Policy
  readonly evidence: EvidenceConfig
  /** Null: nothing is asked of the control plane but a tunnel. */
  readonly door: Door | null
  readonly store: IdentityDir | null
  readonly time: Time
  /** In [0, 1). */
  readonly random: () => number
  readonly log: Log
  /** Why an identity must not be used here (its tenant or runner ID was declared otherwise), or null. */
  readonly objection: (identity: Identity) => string | null
  /** An identity may be used from now on. `kept`: it was there at boot. */
  readonly onIdentity: (identity: Identity, how: 'enrolled' | 'renewed' | 'kept') => void
}

export interface Possession {
  readonly identity: Identity
  readonly held: Held
}

/** How long a stop waits for the answer of an attempt under way: a certificate may be in it. */
const STOP_GRACE = 3000
const SKEW_TOLD = seconds(30)

export class IdentityKeeper {
  readonly #parts: KeeperParts
  #state: State
  #identity: Identity | null
  #request: { readonly work: Work; readonly key: RequestKey } | null = null
  /** Told at boot, or not to be told before the first attempt on a persisted one. */
  #announced = false
  #wake = new AbortController()
  readonly #giveUp = new AbortController()
  #stopping = false
  #skewTold = seconds(0)

  constructor(parts: KeeperParts, possession: Possession | null) {
    this.#parts = parts
    this.#state = { held: possession?.held ?? null, request: null }
    this.#identity = possession?.identity ?? null
  }

  /** The identity, while its certificate lives. */
  get live(): Identity | null {
    return isLive(this.#state.held, this.#parts.time.now()) ? this.#identity : null
  }

  /** Runs until the identity is lost for good or `stop` is called. */
  async run(): Promise<Ending> {
    const { policy, time } = this.#parts
    if (this.#state.held !== null && !(this.#state.held.fromDisk && policy.renews)) this.#announce('kept')
    while (!this.#stopping) {
      const step = nextStep(policy, this.#state, time.now())
      if (step.do === 'end') return step.ending
      if (step.do === 'wait') {
        await time.sleep(milliseconds(Math.min(step.for, TICK)), this.#wake.signal)
        if (this.#wake.signal.aborted) this.#wake = new AbortController()
        continue
      }
      const end = await this.#attempt(step.work)
      if (end !== null) return end
    }
    return ending(EXIT.stopped)
  }

  /** The tunnel was closed because of the identity: renew now, if nothing is under way already. */
  renewNow(): void {
    this.#state = askRenewal(this.#state)
    this.#wake.abort()
  }

  /** An operator replaced a provisioned certificate. */
  replace({ identity, held }: Possession): void {
    this.#identity = identity
    this.#state = { held, request: null }
    this.#request = null
    this.#wake.abort()
  }

  stop(): void {
    this.#stopping = true
    this.#wake.abort()
    setTimeout(() => this.#giveUp.abort(), STOP_GRACE).unref()
  }

  async #attempt(work: Work): Promise<Ending | null> {
    const { evidence, policy, random, time } = this.#parts
    if (work === 'enroll' && evidence.source === null)
      return ending(EXIT.config, ...(evidence.mistake === null ? [] : [evidence.mistake]))
    const key = await this.#keyFor(work)
    const attempted = await this.#send(work, key)
    if (attempted === null) return null
    this.#tellSkew(attempted)
    const { reply } = attempted
    const now = time.now()
    if (reply.type === 'identity') return this.#keep(reply, work, now)

    const outcome: Outcome = reply
    const before = this.#state
    const after = afterAttempt(policy, before, work, outcome, now, random())
    this.#tellFailure(work, attempted, reply, 'state' in after ? after.state : null)
    if ('ending' in after) {
      if (work === 'enroll') this.#onDisk((store) => store.forgetRequest())
      return after.ending
    }
    this.#state = after.state
    if (before.held !== null && after.state.held === null) {
      this.#identity = null
      this.#onDisk((store) => store.setAside())
    } else this.#announceUnconfirmed()
    return null
  }

  /** Null where a stop came first, or came and would wait no longer. */
  async #send(work: Work, key: RequestKey): Promise<Attempted | null> {
    if (this.#stopping) return null
    const { signal } = this.#giveUp
    const givenUp = new Promise<null>((resolve) => signal.addEventListener('abort', () => resolve(null)))
    return Promise.race([this.#ask(work, key, signal), givenUp])
  }

  async #ask(work: Work, key: RequestKey, signal: AbortSignal): Promise<Attempted | null> {
    const { door, evidence } = this.#parts
    if (door === null) return null
    if (work === 'renew' && this.#identity !== null) return door.renew(this.#identity, key, signal)
    return evidence.source === null ? null : door.enroll(evidence.source, key, signal)
  }

  /** One key and CSR for all attempts of one request; an enrollment's are on disk before they are sent. */
  async #keyFor(work: Work): Promise<RequestKey> {
    if (this.#request?.work === work) return this.#request.key
    const { store, time } = this.#parts
    const now = toEpochSeconds(time.now().wall)
    const kept = work === 'enroll' ? (store?.loadRequest(now) ?? null) : null
    const key = kept ?? (await newRequestKey())
    if (work === 'enroll' && kept === null) this.#persist((store) => store.saveRequest(key, now))
    this.#request = { work, key }
    return key
  }

  /** Persisted before it is used. */
  #keep({ identity, serverTime }: Extract<Reply, { type: 'identity' }>, work: Work, now: Moment): Ending | null {
    const { log, objection, policy, random } = this.#parts
    this.#persist((store) => store.save(identity))
    this.#onDisk((store) => store.forgetRequest())
    this.#request = null
    const { spiffeId, tenant, runnerId, enrollmentId, notAfter } = identity
    const how = work === 'enroll' ? 'enrolled' : 'renewed'
    log('info', how, { spiffeId, tenant, runnerId, enrollmentId, notAfter: rfc3339(notAfter) })
    const objected = objection(identity)
    if (objected !== null) return ending(EXIT.config, objected)
    const outcome: Outcome = { type: 'obtained', life: lifeLeft(identity, serverTime) }
    const after = afterAttempt(policy, this.#state, work, outcome, now, random())
    if ('ending' in after) return after.ending
    this.#state = after.state
    this.#identity = identity
    this.#announce(how)
    return null
  }

  #announce(how: 'enrolled' | 'renewed' | 'kept'): void {
    if (this.#identity === null) return
    this.#announced = true
    this.#parts.onIdentity(this.#identity, how)
  }

  /** A persisted identity whose renewal got no verdict serves while its certificate lives. */
  #announceUnconfirmed(): void {
    if (!this.#announced && this.live !== null) this.#announce('kept')
  }

  #persist(write: (store: IdentityDir) => void): void {
    const { log, store } = this.#parts
    if (store === null) return
    try {
      write(store)
    } catch (error) {
      // Of a folder that could not be written at boot this was said then.
      if (store.unwritable === null) log('warn', NOT_PERSISTED, { cause: causeOf(error) })
    }
  }

  /** What may fail without a word: the worst is a file that is read past at the next boot. */
  #onDisk(change: (store: IdentityDir) => void): void {
    try {
      if (this.#parts.store !== null) change(this.#parts.store)
    } catch {
      // Told already when writing failed, or at the next boot.
    }
  }

  #tellFailure(
    work: Work,
    { described }: Attempted,
    reply: Exclude<Reply, { type: 'identity' }>,
    next: State | null,
  ): void {
    const { log } = this.#parts
    const name = work === 'enroll' ? 'enrollment' : 'renewal'
    const wait = next?.request?.wait
    const retryInSeconds = wait === undefined ? undefined : Math.ceil(wait / 1000)
    if (reply.type === 'unavailable') {
      log('warn', `${name} got no answer yet`, { why: reply.why, ...fieldsOf(reply.refused), retryInSeconds })
    } else if (work === 'enroll' && reply.verdict === 'credential') {
      const fields = { ...fieldsOf(reply.refused), ...described, retryInSeconds }
      log('error', 'enrollment refused: the credential, not the network', fields)
    } else if (next?.held === null && work === 'renew') {
      log('warn', 'the persisted identity was refused — set aside, enrolling', fieldsOf(reply.refused))
    } else {
      const level = reply.verdict === 'reattest' ? 'warn' : 'error'
      log(level, `${name} refused`, { ...fieldsOf(reply.refused), ...described, retryInSeconds })
    }
  }

  #tellSkew({ skew }: Attempted): void {
    const behind: Seconds = seconds(Math.round((skew ?? 0) / 1000))
    if (Math.abs(behind) <= SKEW_TOLD || Math.abs(behind - this.#skewTold) <= SKEW_TOLD) return
    this.#skewTold = behind
    const text = `this machine's clock is ${Math.abs(behind)} s ${behind > 0 ? 'behind' : 'ahead of'} the control plane's`
    this.#parts.log('warn', text, { skewSeconds: behind })
  }
}

const fieldsOf = (refused: Refused | undefined): Fields => ({ ...refused })
