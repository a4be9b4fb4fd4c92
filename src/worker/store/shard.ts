// What the Worker has of one shard.

import type { Outcome } from '../../protocol/refusals.ts'
import type { Clock } from '../../protocol/time.ts'
import type { BanList } from '../../trust/bans.ts'
import type { CompiledTrust } from '../../trust/compiled.ts'
import { type Admissions, makeAdmissions } from './admissions.ts'
import { keepBanList } from './ban-cache.ts'
import { loadBanList } from './bans.ts'
import { openDatabase, type WorkerDatabase } from './d1.ts'
import { type Journal, makeJournal } from './journal.ts'
import { makeReservations, type Reservations } from './reservations.ts'

export interface Shard {
  readonly database: WorkerDatabase
  /** At most 30 s old, or 15 min while the database is away. */
  readonly banList: (waitUntil: (work: Promise<unknown>) => void) => Promise<Outcome<BanList>>
  readonly admissions: Admissions
  readonly reservations: Reservations
  /** Writes what follows an answer. */
  readonly journal: Journal
}

/** `trust`: with the tenants of the shard alone. */
export function openShard(db: D1Database, trust: CompiledTrust, clock: Clock): Shard {
  const database = openDatabase(db)
  return {
    database,
    banList: keepBanList((now) => loadBanList(database, now), clock),
    admissions: makeAdmissions(db, trust),
    reservations: makeReservations(db, trust),
    journal: makeJournal(db, clock),
  }
}
