// Records the event of each request: always as a log line, and as a row in D1 within the caps of store/refusal-cap.ts.

import { printable } from '../../protocol/characters.ts'
import type { Leaf } from '../../protocol/leaf.ts'
import { type Notice, REASONS, type Reason } from '../../protocol/reasons.ts'
import { type Labels, type Outcome, type Refusal, statusOf } from '../../protocol/refusals.ts'
import { err } from '../../protocol/result.ts'
import { type EpochMilliseconds, type EpochSeconds, rfc3339, toEpochSeconds } from '../../protocol/time.ts'
import { isStorageOutage } from '../store/db.ts'
import { sharersOf } from '../store/enrollments.ts'
import { type EventRow, insertRefusal } from '../store/events.ts'
import type { Enrollment } from '../store/reservations.ts'
import { log, logFailure } from '../telemetry/log.ts'
import type { Dependencies } from './dependencies.ts'
import { addressKeyOf } from './rate-limit.ts'

/** The client of a request, as far as the edge knows. */
export interface Caller {
  /** UUIDv7, made when the request came. */
  readonly requestId: string
  readonly at: EpochMilliseconds
  /** Client address as the edge saw it; empty where there is no edge. For rate limits only, never recorded. */
  readonly address: string
  readonly colo: string | null
  /** Lets work go on after the answer. */
  readonly waitUntil: (work: Promise<unknown>) => void
}

/** The outcome of a granted request. `replaced`: a connection that is closed, since a newer certificate has one. */
export type Granted = 'enrolled' | 'renewed' | 'connected' | 'replaced' | 'named'

/** What an event will say of a request. Each step adds what it knows; identity fields are added once proven. */
export type Facts = {
  -readonly [K in keyof Omit<
    EventRow,
    'id' | 'time' | 'outcome' | 'reason' | 'colo' | 'claimed' | 'detail'
  >]?: EventRow[K]
} & {
  /** Of an enrollment. */
  sharedUntil?: Enrollment['sharedUntil']
  /** The signature of the enrollment's first certificate, to be kept for a retry. */
  signed?: { readonly enrollmentId: string; readonly signature: string }
}

/** The facts of a verified certificate. */
export function noteLeaf(facts: Facts, { tenant, source, enrollmentId, serial, spiffeId }: Leaf): void {
  Object.assign(facts, { proven: true, tenant, source, enrollmentId, serial, spiffeId })
}

/**
 * Runs the steps of one request and records their outcome. A refusal counts against the client's address. An exception
 * is a refusal too: `storage_unavailable` for an outage, else `internal`. `granted` names the outcome of granted steps.
 */
export async function recorded<T>(
  deps: Dependencies,
  caller: Caller,
  steps: (facts: Facts) => Promise<Outcome<T>>,
  granted: (facts: Facts, value: T) => Granted,
): Promise<Outcome<T>> {
  const facts: Facts = {}
  try {
    const result = await steps(facts)
    if (!result.ok) return await refused(deps, caller, result.error, facts)
    recordGrant(deps, caller, granted(facts, result.value), facts)
    return result
  } catch (error) {
    recordBug(caller, error)
    return refused(deps, caller, { reason: isStorageOutage(error) ? 'storage_unavailable' : 'internal' }, facts)
  }
}

/**
 * Only refusals of callers who proved nothing count against an address, and only such callers are refused by its limit.
 * So runners that share an address with an attacker are served, and a renewal that is refused learns why.
 */
async function refused(deps: Dependencies, caller: Caller, refusal: Refusal, facts: Facts): Promise<Outcome<never>> {
  // This refusal comes before `facts` says that the caller is proven.
  const isProven = facts.proven === true || refusal.reason === 'renewal_window'
  const counts = !isProven && statusOf(refusal) < 500 && caller.address !== ''
  const within = !counts || (await deps.withinRate('failures', addressKeyOf(caller.address)))
  const final: Refusal = within ? refusal : { reason: 'rate_limited' }
  recordRefusal(deps, caller, final, facts)
  return err(final)
}

function recordGrant(deps: Dependencies, caller: Caller, granted: Granted, facts: Facts): void {
  const now = toEpochSeconds(caller.at)
  const { sharedUntil = null } = facts
  if (sharedUntil === null || sharedUntil >= now) recordAs(deps, caller, granted, facts, sharedUntil !== null)
  // By its row the other's certificate has ended. Its object knows whether it has renewed since.
  else store(caller, async () => recordAs(deps, caller, granted, facts, await isRunnerIdShared(deps, facts, now)))
}

/**
 * `shared`: another enrollment of the runner ID has a live certificate. Neither of the two is cut off: otherwise a thief
 * could cut off the owner.
 */
function recordAs(deps: Dependencies, caller: Caller, granted: Granted, facts: Facts, shared: boolean): void {
  const row = rowOf(caller, facts, { outcome: granted, reason: shared ? 'runner_id_shared' : null })
  logEvent('info', row)
  // Logged only: a row for each renewal, one in ten minutes and runner, would be most of the cost of a fleet.
  if (granted !== 'enrolled' && granted !== 'named') return
  deps.shards.of(row.tenant).journal.write({ event: row, signed: facts.signed ?? null }, caller.waitUntil)
}

/** How many objects are asked, one call each. */
const SHARERS_ASKED = 40

/** Asks the objects of those that may have renewed since their row was written. */
async function isRunnerIdShared(
  deps: Dependencies,
  { runnerId, enrollmentId, tenant = null }: Facts,
  now: EpochSeconds,
): Promise<boolean> {
  if (!runnerId || !enrollmentId) return false
  const others = await sharersOf(deps.shards.of(tenant).database, { runnerId, enrollmentId }, now, SHARERS_ASKED).catch(
    () => [],
  )
  const states = await Promise.allSettled(others.map((id) => deps.enrollmentObject(id).status()))
  return states.some((state) => {
    const known = state.status === 'fulfilled' ? state.value : null
    return known !== null && known.ended === null && known.notAfter >= now
  })
}

/** Records a refusal under the request id that the caller got. */
function recordRefusal(deps: Dependencies, caller: Caller, refusal: Refusal, facts: Facts): void {
  const { reason } = refusal
  const row = rowOf(caller, facts, { outcome: 'refused', ...refusal })
  logEvent(REASONS[reason] === 'internal' ? 'error' : 'warn', row)
  if (reason !== 'rate_limited' && deps.refusalCap.admits(row))
    store(caller, () => insertRefusal(deps.shards.of(row.tenant).database, row))
}

/** Logs an exception under the request id, with nothing of the request. */
export function recordBug(caller: Caller, error: unknown): void {
  const fault =
    error instanceof Error ? { error: error.name, message: error.message, stack: error.stack } : { error: 'unknown' }
  log('error', 'bug', { requestId: caller.requestId, ...fault })
}

interface Decided extends Pick<Refusal, 'detail' | 'claimed'> {
  readonly outcome: Granted | 'refused'
  readonly reason: Reason | Notice | null
}

function rowOf(caller: Caller, facts: Facts, { outcome, reason, detail, claimed }: Decided): EventRow {
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
    detail: detail === undefined ? null : safeText(detail),
    claimed: claimed === undefined ? null : safeLabels(claimed),
  }
}

function logEvent(level: 'info' | 'warn' | 'error', row: EventRow): void {
  const { id, time, ...rest } = row
  const known = Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== null))
  log(level, row.outcome, { requestId: id, time: rfc3339(time), ...known })
}

/** Writes a row after the answer. Where that fails the log line is all there is of the event. */
function store(caller: Caller, write: () => Promise<void>): void {
  const { requestId } = caller
  caller.waitUntil(write().catch((error: unknown) => logFailure('event not stored', error, { requestId })))
}

const LONGEST_TEXT = 256

/** Texts of a caller must not forge lines or columns of an operator's output, nor control a terminal. */
const safeText = (text: string): string => printable(text.slice(0, LONGEST_TEXT))

const safeLabels = (claimed: Labels): Labels =>
  Object.fromEntries(Object.entries(claimed).map(([name, text]) => [name, safeText(text)]))
