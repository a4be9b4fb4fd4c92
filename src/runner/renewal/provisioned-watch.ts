// Watches a provisioned certificate: takes up its replacement by an operator, and warns before it ends.

import { hours, rfc3339, toMilliseconds } from '../../protocol/time.ts'
import { type ClockReading, type Clocks, elapsed, mostElapsed, TICK } from '../environment/clock.ts'
import type { Log } from '../environment/log.ts'
import { type DeclaredIdentity, mismatchOf } from '../identity/identity.ts'
import { type ProvisionedSource, readProvisionedIdentity } from '../identity/provisioned.ts'
import { type CurrentIdentity, logProvisioned, provisionedLifetime } from './boot.ts'
import type { Rotator } from './rotator.ts'

const REMIND_EVERY = toMilliseconds(hours(24))
const COMPLAIN_EVERY = toMilliseconds(hours(1))

export interface WatchParts {
  readonly source: ProvisionedSource
  readonly declared: DeclaredIdentity
  /** Whether the runner renews the certificate itself, so that no operator needs to be reminded. */
  readonly renews: boolean
  readonly rotator: Pick<Rotator, 'replace'>
  readonly clocks: Clocks
  readonly log: Log
}

export class ProvisionedWatch {
  readonly #parts: WatchParts
  readonly #stop = new AbortController()
  #current: CurrentIdentity | null = null
  #reminded: ClockReading | null = null
  /** Why the files as they are now are not used; logged once. */
  #unusable: string | null = null

  constructor(parts: WatchParts) {
    this.#parts = parts
  }

  async run(): Promise<void> {
    const { clocks, renews } = this.#parts
    while (!this.#stop.signal.aborted) {
      this.refresh()
      if (!renews) this.#remind(clocks.now())
      await clocks.sleep(TICK, this.#stop.signal)
    }
  }

  stop(): void {
    this.#stop.abort()
  }

  /** Reads the files. They are not used while they are half written or do not belong together. */
  refresh(): void {
    const { source, declared, rotator, clocks, log } = this.#parts
    const read = readProvisionedIdentity(source)
    const why = read.ok ? mismatchOf(declared, read.value) : read.error.join('; ')
    if (why !== this.#unusable && why !== null) {
      log('warn', 'the replaced provisioned certificate is not taken up', { why })
    }
    this.#unusable = why
    if (!read.ok || why !== null) return
    const identity = read.value
    const replaced = this.#current !== null && this.#current.identity.certificate !== identity.certificate
    if (this.#current !== null && !replaced) return
    const now = clocks.now()
    this.#current = { identity, lifetime: provisionedLifetime(identity, now, 0) }
    if (!replaced) return
    this.#reminded = null
    logProvisioned(log, identity)
    rotator.replace(this.#current)
  }

  /** Nothing renews it: from two thirds of its life a warning a day, from its end an error an hour. */
  #remind(now: ClockReading): void {
    if (this.#current === null) return
    const { log } = this.#parts
    const { lifetime, identity } = this.#current
    const lived = mostElapsed(lifetime.since, now)
    const over = lived >= lifetime.length
    if (!over && lived < (lifetime.length * 2) / 3) return
    const every = over ? COMPLAIN_EVERY : REMIND_EVERY
    if (this.#reminded !== null && elapsed(this.#reminded, now) < every) return
    this.#reminded = now
    const date = rfc3339(identity.notAfter)
    if (over) log('error', `the provisioned certificate expired on ${date}: replace it`, { notAfter: date })
    else log('warn', `the provisioned certificate ends on ${date} and nothing renews it`, { notAfter: date })
  }
}
