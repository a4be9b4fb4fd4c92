// The tickets of connections that are admitted and have no socket yet. They are kept in memory alone: after a restart of
// the object the runner connects again.

import type { Leaf } from '../../protocol/leaf.ts'
import { addSeconds, type EpochSeconds, seconds } from '../../protocol/time.ts'
import type { Connection } from './uses.ts'

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

  /** Gives the name of the ticket. */
  issue(ticket: Ticket, now: EpochSeconds): string {
    for (const [name, { until }] of this.#issued) if (until < now) this.#issued.delete(name)
    const name = crypto.randomUUID()
    this.#issued.set(name, { ...ticket, until: addSeconds(now, TICKET_LIFE) })
    return name
  }

  /** Null where no ticket has that name, it was taken before, or it expired. */
  take(name: string, now: EpochSeconds): Ticket | null {
    const ticket = this.#issued.get(name)
    this.#issued.delete(name)
    return ticket === undefined || ticket.until < now ? null : ticket
  }
}
