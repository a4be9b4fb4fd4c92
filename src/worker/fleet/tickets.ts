// The tickets of connections that were admitted and whose socket is still to come. In memory alone: at a restart of the
// object the runner connects again.

import type { Leaf } from '../../protocol/leaf.ts'
import { addSeconds, type EpochSeconds, seconds } from '../../protocol/time.ts'
import type { Connection } from './record.ts'

export interface Ticket {
  readonly connection: Connection
  readonly presented: Leaf
}

/** A connection that may take its socket from `fetch`. */
export interface Admission {
  readonly ticket: string
  /** It came late, and is closed at once. */
  readonly late: boolean
}

const TICKET_LIFE = seconds(10)

export class Tickets {
  readonly #issued = new Map<string, Ticket & { readonly until: EpochSeconds }>()

  /** Its name. */
  issue(ticket: Ticket, now: EpochSeconds): string {
    for (const [name, { until }] of this.#issued) if (until < now) this.#issued.delete(name)
    const name = crypto.randomUUID()
    this.#issued.set(name, { ...ticket, until: addSeconds(now, TICKET_LIFE) })
    return name
  }

  /** Null where there is none of that name, or none any more: each is taken once. */
  take(name: string, now: EpochSeconds): Ticket | null {
    const ticket = this.#issued.get(name)
    this.#issued.delete(name)
    return ticket === undefined || ticket.until < now ? null : ticket
  }
}
