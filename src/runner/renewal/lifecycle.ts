// Decides when to enroll, renew, enroll again or exit. Pure: time, a random number and the answer of the control plane
// come in, the next step comes out.

import { CLOCK_LEEWAY, RENEWAL_GRACE } from '../../protocol/limits.ts'
import { err, ok, type Result } from '../../protocol/result.ts'
import { type Milliseconds, milliseconds, minutes, toMilliseconds } from '../../protocol/time.ts'
import { type ClockReading, elapsed, mostElapsed, TICK } from '../environment/clock.ts'
import { EXIT, type Exit, exitWith } from '../environment/exit.ts'
import { BACKOFF_CEILING, backoff } from '../net/backoff.ts'
import type { Verdict } from './response.ts'

export type Work = 'enroll' | 'renew'

/** What the configuration allows. */
export interface Policy {
  readonly renews: boolean
  /** The evidence can be used again, so a runner that lost its identity enrolls again without a restart. */
  readonly enrollsAgain: boolean
  /** A provisioned certificate that nothing renews is replaced by an operator: the runner stays up and waits. */
  readonly waitsForOperator: boolean
  /** How many refusals in a row end the attempts with a credential. */
  readonly patience: number
}

/** The life of one certificate, by this machine's clocks. */
export interface Lifetime {
  readonly since: ClockReading
  /** From `since` to its end; negative where it ended before. */
  readonly length: Milliseconds
  readonly renewAfter: Milliseconds
  /** Read from disk at this boot and not yet confirmed by the control plane. */
  readonly fromDisk: boolean
}

/** Work that was tried and not done; all its attempts use one key and CSR. */
export interface PendingRequest {
  readonly work: Work
  readonly failures: number
  /** When the first attempt failed, and the last. */
  readonly since: ClockReading
  readonly last: ClockReading
  readonly wait: Milliseconds
  /** Refusals of one kind in a row. */
  readonly refusals: Refusals | null
}

interface Refusals {
  readonly verdict: Verdict
  readonly count: number
}

export interface State {
  /** Of the identity that the runner has; null: it has none. */
  readonly lifetime: Lifetime | null
  readonly request: PendingRequest | null
}

export type Step =
  | { readonly do: 'attempt'; readonly work: Work }
  | { readonly do: 'wait'; readonly for: Milliseconds }
  | { readonly do: 'exit'; readonly exit: Exit }

export interface AttemptFailure {
  readonly work: Work
  readonly verdict: Verdict
  /** How long the control plane asks to wait; null where it asks for nothing. */
  readonly retryAfter: Milliseconds | null
}

/** How long past its end the control plane still renews a certificate. */
export const RENEWAL_WINDOW = toMilliseconds(minutes((RENEWAL_GRACE + CLOCK_LEEWAY) / 60))
const PROTOCOL_TRIES = 3
/** Renewals are at least this far apart, however short a certificate lives. */
const LEAST_BETWEEN = milliseconds(3000)
/** The time-out of one attempt. So much of the window must be left for a last try. */
const LAST_TRY = milliseconds(10_000)
/** After more failures in a row than these it is an outage, in which the whole fleet may be. */
const QUICK_RETRIES = 3
/** With less than this left of a certificate, tries are no longer fitted into its life: they would follow closely. */
const TOO_SHORT_TO_FIT = milliseconds(60_000)

const EXPIRED = 'identity expired beyond the renewal grace window — runner needs re-enrollment'
const NOT_RENEWED = 'the certificate expired and RUNNER_CERT_RENEWAL=off: nothing renews it'

/**
 * Renewal is due at two thirds of the life, less a random part of up to a tenth of it: a fleet that boots at once
 * renews spread out. `random` is in [0, 1).
 */
export function lifetimeFrom(since: ClockReading, length: Milliseconds, random: number): Lifetime {
  const renewAfter = length <= 0 ? 0 : Math.max(LEAST_BETWEEN, (length * 2) / 3 - (length / 10) * random)
  return { since, length, renewAfter: milliseconds(Math.round(renewAfter)), fromDisk: false }
}

/** A persisted identity is renewed at once. */
export const persistedLifetime = (since: ClockReading, length: Milliseconds): Lifetime => ({
  since,
  length,
  renewAfter: milliseconds(0),
  fromDisk: true,
})

/** Negative past its end. */
export const lifeLeft = ({ since, length }: Lifetime, now: ClockReading): Milliseconds =>
  milliseconds(length - elapsed(since, now))

export const isLive = (lifetime: Lifetime | null, now: ClockReading): lifetime is Lifetime =>
  lifetime !== null && lifeLeft(lifetime, now) > 0

export function nextStep(policy: Policy, { lifetime, request }: State, now: ClockReading): Step {
  const work = request?.work ?? (lifetime === null ? 'enroll' : 'renew')
  if (lifetime !== null && work === 'renew' && policy.renews) {
    if (windowLeft(work, lifetime, now) < 0) return { do: 'exit', exit: exitWith(EXIT.lost, EXPIRED) }
  }
  if (request !== null) return attemptAfter(request.wait, elapsed(request.last, now), work)
  if (lifetime === null) return { do: 'attempt', work }
  if (policy.renews) return attemptAfter(lifetime.renewAfter, mostElapsed(lifetime.since, now), work)
  if (policy.waitsForOperator) return { do: 'wait', for: TICK }
  const left = lifeLeft(lifetime, now)
  return left > 0 ? { do: 'wait', for: left } : { do: 'exit', exit: exitWith(EXIT.lost, NOT_RENEWED) }
}

/** The state after a refusal of a renewal: by the control plane's time in it, the certificate has `length` left. */
export const withLifeLeft = (state: State, length: Milliseconds, now: ClockReading): State =>
  state.lifetime === null
    ? state
    : { ...state, lifetime: { ...state.lifetime, since: now, length, renewAfter: milliseconds(0) } }

function attemptAfter(wait: Milliseconds, waited: Milliseconds, work: Work): Step {
  const left = milliseconds(wait - waited)
  return left > 0 ? { do: 'wait', for: left } : { do: 'attempt', work }
}

/** The control plane closed the tunnel because of the certificate: renewal is due now. */
export const withRenewalDue = (state: State): State =>
  state.lifetime === null || state.request !== null
    ? state
    : { ...state, lifetime: { ...state.lifetime, renewAfter: milliseconds(0) } }

/**
 * The state with a new certificate that lives for `length`. `random` is in [0, 1). A renewal that came late because others
 * had failed makes the next one as much earlier. So the fleet is as spread out after an outage as it was before; otherwise
 * all that waited would renew together, again and again.
 */
export function afterSuccess(length: Milliseconds, now: ClockReading, random: number, before: State): State {
  const next = lifetimeFrom(now, length, random)
  if (before.lifetime === null || before.request === null) return { lifetime: next, request: null }
  const late = Math.max(0, elapsed(before.lifetime.since, now) - before.lifetime.renewAfter)
  const renewAfter = milliseconds(Math.max(LEAST_BETWEEN, next.renewAfter - (late % next.renewAfter)))
  return { lifetime: { ...next, renewAfter }, request: null }
}

/** The state after a failed attempt, or the end of the runner. `random` is in [0, 1). */
export function afterFailure(
  policy: Policy,
  { lifetime, request }: State,
  { work, verdict, retryAfter }: AttemptFailure,
  now: ClockReading,
  random: number,
): Result<State, Exit> {
  const failures = (request?.failures ?? 0) + 1
  const again = (refusals: Refusals | null): Result<State, Exit> => {
    const since = request?.since ?? now
    const own = backoff(failures, random)
    const isOutage = verdict === 'later' && work === 'renew' && lifetime !== null && failures > QUICK_RETRIES
    const asked = isOutage
      ? Math.max(retryAfter ?? 0, own, outageWait(lifetime, elapsed(since, now), now, random))
      : (retryAfter ?? own)
    const wait = milliseconds(Math.min(asked, longestWait(work, lifetime, now)))
    return ok({ lifetime, request: { work, failures, since, last: now, wait, refusals } })
  }
  if (verdict === 'later') return again(request?.refusals ?? null)
  if (verdict === 'banned') return err(exitWith(EXIT.refused, 'this identity is banned'))
  const refusals = countRefusal(request?.refusals ?? null, verdict)
  if (verdict === 'protocol') return refusals.count < PROTOCOL_TRIES ? again(refusals) : err(NOT_UNDERSTOOD)
  // The identity on disk may be an old copy: a boot tries it once and then enrolls.
  if (work === 'renew' && lifetime?.fromDisk === true) return ok({ lifetime: null, request: null })
  const patient = refusals.count < policy.patience && windowLeft(work, lifetime, now) > LAST_TRY
  if (verdict === 'credential' && patient) return again(refusals)
  if (work === 'enroll') return err(exitWith(EXIT.refused, 'enrollment was refused for good'))
  if (verdict === 'window') return err(exitWith(EXIT.lost, EXPIRED))
  if (!policy.enrollsAgain) {
    return err(exitWith(EXIT.lost, 'renewal was refused for good — runner needs re-enrollment'))
  }
  return ok({
    lifetime,
    request: { work: 'enroll', failures: 0, since: now, last: now, wait: milliseconds(0), refusals: null },
  })
}

/**
 * How long a renewal waits in an outage. Whatever a fleet tries in a second of an outage it will try in the second when the
 * control plane is back. So a runner tries no oftener than it needs: once more before its certificate ends, and then each
 * time it has been failing about twice as long; every five minutes at least. `random` is in [0, 1).
 */
function outageWait(lifetime: Lifetime, failing: Milliseconds, now: ClockReading, random: number): Milliseconds {
  const left = lifeLeft(lifetime, now) - LAST_TRY
  const longest = Math.min(BACKOFF_CEILING, left > TOO_SHORT_TO_FIT ? left : failing)
  return milliseconds(Math.round(longest * (1 - random / 4)))
}

const NOT_UNDERSTOOD = exitWith(
  EXIT.protocol,
  'the control plane does not accept what this runner sends: check the versions of both',
)

const countRefusal = (before: Refusals | null, verdict: Verdict): Refusals =>
  before?.verdict === verdict ? { verdict, count: before.count + 1 } : { verdict, count: 1 }

/** How long a renewal still has; an enrollment has no end. */
const windowLeft = (work: Work, lifetime: Lifetime | null, now: ClockReading): number =>
  work === 'renew' && lifetime !== null ? lifeLeft(lifetime, now) + RENEWAL_WINDOW : Number.POSITIVE_INFINITY

/** No wait passes the last moment for a try: the end of the window less one attempt. */
function longestWait(work: Work, lifetime: Lifetime | null, now: ClockReading): number {
  const ahead = windowLeft(work, lifetime, now) - LAST_TRY
  return ahead > 0 ? ahead : Number.POSITIVE_INFINITY
}
