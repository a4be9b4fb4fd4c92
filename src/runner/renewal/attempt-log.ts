// Logs the result of each attempt to enroll or to renew.

import { rfc3339, type Seconds, seconds } from '../../protocol/time.ts'
import type { Log } from '../environment/log.ts'
import type { Identity } from '../identity/identity.ts'
import type { Attempt } from './enroll-client.ts'
import type { State, Work } from './lifecycle.ts'
import type { EnrollFailure } from './response.ts'

/** A difference of the clocks is logged from here on, and again when it changed by as much. */
const SKEW_TOLERANCE = seconds(30)

export class AttemptLog {
  readonly #log: Log
  #lastSkew = seconds(0)

  constructor(log: Log) {
    this.#log = log
  }

  success(how: 'enrolled' | 'renewed', { spiffeId, tenant, runnerId, enrollmentId, notAfter }: Identity): void {
    this.#log('info', how, { spiffeId, tenant, runnerId, enrollmentId, notAfter: rfc3339(notAfter) })
  }

  /** `next`: the state that follows; null where the runner ends. */
  failure(
    work: Work,
    { verdict, why, problem }: EnrollFailure,
    { asked, described }: Attempt,
    next: State | null,
  ): void {
    const name = work === 'enroll' ? 'enrollment' : 'renewal'
    const wait = next?.request?.wait
    const retryInSeconds = wait === undefined ? undefined : Math.ceil(wait / 1000)
    if (!asked) {
      // The operator needs to know what is missing, not that the attempt failed.
      this.#log('warn', why, { retryInSeconds })
    } else if (verdict === 'later') {
      this.#log('warn', `${name} got no answer yet`, { why, ...problem, retryInSeconds })
    } else if (work === 'enroll' && verdict === 'credential') {
      const fields = { ...problem, ...described, retryInSeconds }
      this.#log('error', 'enrollment refused: the credential, not the network', fields)
    } else if (next?.lifetime === null && work === 'renew') {
      this.#log('warn', 'the persisted identity was refused — set aside, enrolling', { ...problem })
    } else {
      const level = verdict === 'reattest' ? 'warn' : 'error'
      this.#log(level, `${name} refused`, { ...problem, ...described, retryInSeconds })
    }
  }

  skew({ skew }: Attempt): void {
    const behind: Seconds = seconds(Math.round((skew ?? 0) / 1000))
    if (Math.abs(behind) <= SKEW_TOLERANCE || Math.abs(behind - this.#lastSkew) <= SKEW_TOLERANCE) return
    this.#lastSkew = behind
    const text = `this machine's clock is ${Math.abs(behind)} s ${behind > 0 ? 'behind' : 'ahead of'} the control plane's`
    this.#log('warn', text, { skewSeconds: behind })
  }
}
