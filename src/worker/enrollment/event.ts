// One request, one event: a structured log line always, and a row in D1 where the table has room for it.

import { printable } from '../../protocol/characters.ts'
import { adviceOf, type Notice } from '../../protocol/notices.ts'
import { REASONS, type Reason } from '../../protocol/reasons.ts'
import { type Labels, type Outcome, type Refusal, statusOf } from '../../protocol/refusals.ts'
import { err } from '../../protocol/result.ts'
import { type EpochMilliseconds, type EpochSeconds, rfc3339, toEpochSeconds } from '../../protocol/time.ts'
import { isStorageOutage } from '../store/db.ts'
import { sharersOf } from '../store/enrollments.ts'
import { type EventRow, insertEvent, insertRefusal } from '../store/events.ts'
import { errorText, log } from '../telemetry/log.ts'
import type { Dependencies } from './dependencies.ts'
import { addressKeyOf } from './rate-limit.ts'

/** Who calls, as far as the edge knows. */
export interface Caller {
  /** UUIDv7, made when the request came. */
  readonly requestId: string
  readonly at: EpochMilliseconds
  /** Client address as the edge saw it, empty where there is no edge; for rate limits only, never recorded. */
  readonly address: string
  readonly colo: string | null
  /** Lets work go on after the answer. */
  readonly later: (work: Promise<unknown>) => void
}

/** What a granted request did. */
export type Granted = 'enrolled' | 'renewed' | 'connected' | 'named'

/** What is known of a request, filled in along the way; identity fields only once proven. */
export type Facts = {
  -readonly [K in keyof Omit<
    EventRow,
    'id' | 'time' | 'outcome' | 'reason' | 'colo' | 'claimed' | 'detail'
  >]?: EventRow[K]
}

/**
 * Runs the steps of one request and records how it ended. A refusal counts against the client's address; an exception
 * is an outage where it was one, else a bug. `granted` says after the steps what they did.
 */
export async function recorded<T>(
  deps: Dependencies,
  caller: Caller,
  steps: (facts: Facts) => Promise<Outcome<T>>,
  granted: (facts: Facts) => Granted,
): Promise<Outcome<T>> {
  const facts: Facts = {}
  try {
    const result = await steps(facts)
    if (!result.ok) return await refused(deps, caller, result.error, facts)
    recordGrant(deps, caller, granted(facts), facts)
    return result
  } catch (error) {
    recordBug(caller, error)
    return refused(deps, caller, { reason: isStorageOutage(error) ? 'storage_unavailable' : 'internal' }, facts)
  }
}

/** Only failures count against an address, so one that is full of honest runners is never shut out. */
async function refused(deps: Dependencies, caller: Caller, refusal: Refusal, facts: Facts): Promise<Outcome<never>> {
  const isTheirs = statusOf(refusal) < 500 && caller.address !== ''
  const within = !isTheirs || (await deps.withinRate('failures', addressKeyOf(caller.address)))
  const told: Refusal = within ? refusal : { reason: 'rate_limited' }
  recordRefusal(deps, caller, told, facts)
  return err(told)
}

function recordGrant(deps: Dependencies, caller: Caller, granted: Granted, facts: Facts): void {
  if (granted === 'enrolled') {
    later(caller, () => recordEnrolled(deps, caller, facts))
    return
  }
  const row = rowOf(caller, granted, null, facts, null)
  logEvent('info', row, null)
  // A renewal every ten minutes for each runner would be most of the bill: it is logged only.
  if (granted === 'named') later(caller, () => insertEvent(deps.database, row))
}

/**
 * Records an enrollment after its answer, with a notice where another enrollment of its runner ID has a live
 * certificate. Neither is cut off: a thief could cut off the owner.
 */
async function recordEnrolled(deps: Dependencies, caller: Caller, facts: Facts): Promise<void> {
  const shared = await isRunnerIdShared(deps, facts, toEpochSeconds(caller.at)).catch(() => false)
  const notice = shared ? 'runner_id_shared' : null
  const row = rowOf(caller, 'enrolled', notice, facts, null)
  logEvent('info', row, notice)
  await insertEvent(deps.database, row)
}

/** As many are asked whether their certificate lives; a runner that restarted often leaves some that does not. */
const SHARERS_ASKED = 5

async function isRunnerIdShared(
  deps: Dependencies,
  { runnerId, enrollmentId }: Facts,
  now: EpochSeconds,
): Promise<boolean> {
  if (!runnerId || !enrollmentId) return false
  const others = await sharersOf(deps.database, runnerId, enrollmentId, now, SHARERS_ASKED)
  const states = await Promise.all(others.map((id) => deps.enrollmentObject(id).status()))
  return states.some((state) => state !== null && state.ended === null && state.notAfter >= now)
}

/** The event of a refused request, under the id that the caller was told. */
function recordRefusal(deps: Dependencies, caller: Caller, refusal: Refusal, facts: Facts): void {
  const { reason } = refusal
  const row = rowOf(caller, 'refused', reason, facts, refusal)
  logEvent(REASONS[reason].code === 'internal' ? 'error' : 'warn', row, reason)
  const hasRoom =
    reason !== 'rate_limited' && deps.refusalCap.admits(row.proven ? 'proven' : 'unproven', reason, row.time)
  if (hasRoom) later(caller, () => insertRefusal(deps.database, row))
}

/** Logs what broke a request, for whoever looks the request id up. Never what the request held. */
export function recordBug(caller: Caller, error: unknown): void {
  const fault =
    error instanceof Error ? { error: error.name, message: error.message, stack: error.stack } : { error: 'unknown' }
  log('error', 'bug', { requestId: caller.requestId, ...fault })
}

function rowOf(
  caller: Caller,
  outcome: Granted | 'refused',
  reason: Reason | Notice | null,
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
    detail: refusal?.detail === undefined ? null : safeText(refusal.detail),
    claimed: refusal?.claimed === undefined ? null : safeLabels(refusal.claimed),
  }
}

function logEvent(level: 'info' | 'warn' | 'error', row: EventRow, reason: Reason | Notice | null): void {
  const { id, time, ...rest } = row
  const known = Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== null))
  const advice = reason === null ? {} : { advice: adviceOf(reason) }
  log(level, row.outcome, { requestId: id, time: rfc3339(time), ...known, ...advice })
}

/** An event that cannot be stored must not break the answer: the log line has it. */
function later(caller: Caller, write: () => Promise<void>): void {
  caller.later(
    write().catch((error: unknown) =>
      log('error', 'event not stored', { requestId: caller.requestId, error: errorText(error) }),
    ),
  )
}

const LONGEST_TEXT = 256

/** What a caller says may not forge lines or columns of what an operator reads, nor steer a terminal. */
const safeText = (text: string): string => printable(text.slice(0, LONGEST_TEXT))

const safeLabels = (claimed: Labels): Labels =>
  Object.fromEntries(Object.entries(claimed).map(([name, text]) => [name, safeText(text)]))
