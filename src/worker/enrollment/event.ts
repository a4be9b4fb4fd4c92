// One decision, one event, made here: always a structured log line, and a row in D1 where the table has room for it.

import { printable } from '../../protocol/labels.ts'
import { adviceOf, type Note } from '../../protocol/notices.ts'
import { REASONS, type Reason } from '../../protocol/reasons.ts'
import type { Labels, Refusal } from '../../protocol/refusals.ts'
import { type EpochMilliseconds, rfc3339, toEpochSeconds } from '../../protocol/time.ts'
import type { Database } from '../store/db.ts'
import { type EventRow, insertEvent, insertRefusal } from '../store/events.ts'
import type { Door } from './dependencies.ts'

export type Outcome = 'enrolled' | 'renewed' | 'connected' | 'named' | 'refused'

/** Who calls, as far as the edge knows. */
export interface Caller {
  /** UUIDv7, made at the door. */
  readonly requestId: string
  /** When the request came. */
  readonly at: EpochMilliseconds
  /** Client address as the edge saw it, empty where there is no edge; for rate limits only, never recorded. */
  readonly address: string
  readonly colo: string | null
  /** Lets work go on after the answer. */
  readonly later: (work: Promise<unknown>) => void
}

/** What is known of a request, filled in along the way; identity fields only once proven. */
export type Facts = {
  -readonly [K in keyof Omit<
    EventRow,
    'id' | 'time' | 'outcome' | 'reason' | 'colo' | 'claimed' | 'detail'
  >]?: EventRow[K]
}

/** Writes the event of a request that was granted. */
export function recordGrant(
  db: Database,
  caller: Caller,
  outcome: Outcome,
  facts: Facts,
  note: Note | null = null,
): void {
  const row = rowOf(caller, outcome, note, facts, null)
  log('info', row, note)
  // A renewal every ten minutes for each runner would be most of the bill: it is logged only.
  if (outcome === 'enrolled' || outcome === 'named' || note !== null) later(caller, () => insertEvent(db, row))
}

/** Writes the event of a refused request, under the id that the caller was told. */
export function recordRefusal(
  { database, refusalGate }: Pick<Door, 'database' | 'refusalGate'>,
  caller: Caller,
  refusal: Refusal,
  facts: Facts,
): void {
  const row = rowOf(caller, 'refused', refusal.reason, facts, refusal)
  log(REASONS[refusal.reason].code === 'internal' ? 'error' : 'warn', row, refusal.reason)
  const standing = row.proven ? 'proven' : 'unproven'
  const hasRoom = refusal.reason !== 'rate_limited' && refusalGate.admits(standing, refusal.reason, row.time)
  if (hasRoom) later(caller, () => insertRefusal(database, row))
}

/** Writes what broke a request, for whoever looks the request id up. Never what the request held. */
export function recordBug(caller: Caller, error: unknown): void {
  const fault =
    error instanceof Error ? { error: error.name, message: error.message, stack: error.stack } : { error: 'unknown' }
  console.error(JSON.stringify({ level: 'error', message: 'bug', requestId: caller.requestId, ...fault }))
}

function rowOf(
  caller: Caller,
  outcome: Outcome,
  reason: Reason | Note | null,
  facts: Facts,
  refusal: Refusal | null,
): EventRow {
  return {
    id: caller.requestId,
    time: toEpochSeconds(caller.at),
    outcome,
    reason,
    proven: facts.proven ?? false,
    mode: facts.mode ?? null,
    tenant: facts.tenant ?? null,
    source: facts.source ?? null,
    identity: facts.identity ?? null,
    runnerId: facts.runnerId ?? null,
    enrollmentId: facts.enrollmentId ?? null,
    serial: facts.serial ?? null,
    spiffeId: facts.spiffeId ?? null,
    instanceId: facts.instanceId ?? null,
    colo: caller.colo,
    detail: refusal?.detail === undefined ? null : shown(refusal.detail),
    claimed: refusal?.claimed === undefined ? null : shownAll(refusal.claimed),
  }
}

function log(level: 'info' | 'warn' | 'error', row: EventRow, reason: Reason | Note | null): void {
  const { id, time, ...rest } = row
  const known = Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== null))
  const advice = reason === null ? {} : { advice: adviceOf(reason) }
  console[level](
    JSON.stringify({ level, message: row.outcome, requestId: id, time: rfc3339(time), ...known, ...advice }),
  )
}

/** An event that cannot be stored must not break the answer: the log line has it. */
function later(caller: Caller, write: () => Promise<void>): void {
  caller.later(
    write().catch((error: unknown) => {
      const message = error instanceof Error ? error.message : 'unknown'
      console.error(
        JSON.stringify({ level: 'error', message: 'event not stored', requestId: caller.requestId, error: message }),
      )
    }),
  )
}

const LONGEST_TEXT = 256

/** What a caller says may not forge lines or columns of what an operator reads, nor steer a terminal. */
const shown = (text: string): string => printable(text.slice(0, LONGEST_TEXT))

const shownAll = (claimed: Labels): Labels =>
  Object.fromEntries(Object.entries(claimed).map(([name, text]) => [name, shown(text)]))
