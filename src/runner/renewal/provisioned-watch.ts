// Watches a provisioned certificate: takes up the one that an operator puts in its place, and says when it is time.

import { hours, rfc3339, toMilliseconds } from '../../protocol/time.ts'
import type { Config } from '../config.ts'
import { objectionTo } from '../environment/declared-identity.ts'
import type { Identity } from '../identity/identity.ts'
import { readProvisionedIdentity } from '../identity/provisioned.ts'
import type { Log } from '../log.ts'
import { lifeOf, tellProvisioned } from './boot.ts'
import { type Moment, mostElapsed, type Time } from './clock.ts'
import { type Held, hold, TICK } from './lifecycle.ts'
import type { IdentityKeeper } from './rotator.ts'

const REMIND_EVERY = toMilliseconds(hours(24))
const COMPLAIN_EVERY = toMilliseconds(hours(1))

export class ProvisionedWatch {
  readonly #config: Config
  readonly #keeper: Pick<IdentityKeeper, 'replace'>
  readonly #time: Time
  readonly #log: Log
  readonly #stop = new AbortController()
  #current: { readonly identity: Identity; readonly held: Held } | null = null
  #told: Moment | null = null
  /** Why what stands in the files now is not used; said once. */
  #untaken: string | null = null

  constructor(config: Config, keeper: Pick<IdentityKeeper, 'replace'>, { time }: { readonly time: Time }, log: Log) {
    this.#config = config
    this.#keeper = keeper
    this.#time = time
    this.#log = log
  }

  async run(): Promise<void> {
    while (!this.#stop.signal.aborted) {
      this.refresh()
      if (!this.#config.renews) this.#remind(this.#time.now())
      await this.#time.sleep(TICK, this.#stop.signal)
    }
  }

  stop(): void {
    this.#stop.abort()
  }

  /** Reads the files; those that are half written or do not fit are left until the next time. */
  refresh(): void {
    const { provisioned, network } = this.#config
    if (provisioned === null) return
    const read = readProvisionedIdentity(provisioned, network.extraRoots())
    const why = 'identity' in read ? objectionTo(this.#config, read.identity) : read.faults.join('; ')
    if (why !== this.#untaken && why !== null) {
      this.#log('warn', 'the replaced provisioned certificate is not taken up', { why })
    }
    this.#untaken = why
    if (!('identity' in read) || why !== null) return
    const { identity } = read
    const replaced = this.#current !== null && this.#current.identity.certificate !== identity.certificate
    if (this.#current !== null && !replaced) return
    const now = this.#time.now()
    this.#current = { identity, held: hold(lifeOf(identity, now.wall), now, 0) }
    if (!replaced) return
    this.#told = null
    tellProvisioned(this.#log, identity)
    this.#keeper.replace(this.#current)
  }

  /** Nothing renews it: from two thirds of its life a warning a day, from its end an error an hour. */
  #remind(now: Moment): void {
    if (this.#current === null) return
    const { held, identity } = this.#current
    const lived = mostElapsed(held.since, now)
    const over = lived >= held.life
    if (!over && lived < (held.life * 2) / 3) return
    const every = over ? COMPLAIN_EVERY : REMIND_EVERY
    if (this.#told !== null && mostElapsed(this.#told, now) < every) return
    this.#told = now
    const date = rfc3339(identity.notAfter)
    if (over) this.#log('error', `the provisioned certificate expired on ${date}: replace it`, { notAfter: date })
    else this.#log('warn', `the provisioned certificate ends on ${date} and nothing renews it`, { notAfter: date })
  }
}
