// The life of an identity as a state machine: enroll, renew, re-attest, lose. Pure: time, chance and what the control
// plane answered come in, the next step comes out.

import { CLOCK_LEEWAY, RENEWAL_GRACE } from '../../protocol/limits.ts'
import { type Milliseconds, milliseconds, minutes, toMilliseconds } from '../../protocol/time.ts'
import { type Ending, EXIT, EXPIRED, ending } from '../exit.ts'
import { backoff } from './backoff.ts'
import { leastElapsed, type Moment, mostElapsed } from './clock.ts'
import type { Verdict } from './response.ts'

export type Work = 'enroll' | 'renew'

/** What the configuration allows. */
export interface Policy {
  readonly renews: boolean
  /** The evidence serves more than once, so a lost identity can be had anew without a restart. */
  readonly enrollsAgain: boolean
  /** A provisioned certificate that nothing renews is replaced by an operator: the runner stays up and waits. */
  readonly waitsForOperator: boolean
  /** How long a refused credential is tried again: so many times in all, or for so long. */
  readonly patience: { readonly tries: number } | { readonly time: Milliseconds }
}

/** An identity, as far as the machine minds: when it came, and how long it had to live then. */
export interface Held {
  readonly since: Moment
  readonly life: Milliseconds
  readonly renewAfter: Milliseconds
  /** Read from disk at this boot and not yet confirmed by the control plane. */
  readonly fromDisk: boolean
}

/** Work that has been tried and not done: one key and CSR belong to it. */
export interface Request {
  readonly work: Work
  readonly failures: number
  readonly last: Moment
  readonly wait: Milliseconds
  /** Refusals of one kind in a row. */
  readonly refusals: { readonly verdict: Verdict; readonly count: number; readonly since: Moment } | null
}

export interface State {
  readonly held: Held | null
  readonly request: Request | null
}

export type Step =
  | { readonly do: 'attempt'; readonly work: Work }
  | { readonly do: 'wait'; readonly for: Milliseconds }
  | { readonly do: 'end'; readonly ending: Ending }

export type Outcome =
  | { readonly type: 'obtained'; readonly life: Milliseconds }
  | { readonly type: 'refused'; readonly verdict: Exclude<Verdict, 'later'> }
  | { readonly type: 'unavailable'; readonly retryAfter: Milliseconds | null }

/** A sleeping machine's clock is asked again after this: an alarm set for later would not see that it slept. */
export const TICK = milliseconds(30_000)
/** The control plane renews until then past the end of a certificate. */
export const WINDOW = toMilliseconds(minutes((RENEWAL_GRACE + CLOCK_LEEWAY) / 60))
export const KUBERNETES_PATIENCE = toMilliseconds(minutes(10))
const PROTOCOL_TRIES = 3
/** However short a certificate lives, renewals are this far apart. */
const LEAST_BETWEEN = 3000
/** One attempt's time-out: what must be left of the window for a last try. */
const LAST_TRY = 10_000

/** Two thirds of the life, less a random part of up to a tenth of it: a fleet that boots at once renews spread out. */
export function hold(life: Milliseconds, since: Moment, random: number): Held {
  const renewAfter = life <= 0 ? 0 : Math.max(LEAST_BETWEEN, (life * 2) / 3 - (life / 10) * random)
  return { since, life, renewAfter: milliseconds(Math.round(renewAfter)), fromDisk: false }
}

/** A persisted identity is renewed at once. */
export const holdFromDisk = (life: Milliseconds, since: Moment): Held => ({
  since,
  life,
  renewAfter: milliseconds(0),
  fromDisk: true,
})

export const isLive = (held: Held | null, now: Moment): held is Held =>
  held !== null && mostElapsed(held.since, now) < held.life

export function nextStep(policy: Policy, { held, request }: State, now: Moment): Step {
  const work = request?.work ?? (held === null ? 'enroll' : 'renew')
  // A wall clock that jumped ahead may be wrong: then the control plane decides. When both clocks say so, it is over.
  if (held !== null && work === 'renew' && policy.renews && leastElapsed(held.since, now) > held.life + WINDOW) {
    return { do: 'end', ending: ending(EXIT.lost, EXPIRED) }
  }
  if (request !== null) return attemptAfter(request.wait, request.last, now, work)
  if (held === null) return { do: 'attempt', work }
  if (policy.renews) return attemptAfter(held.renewAfter, held.since, now, work)
  if (policy.waitsForOperator) return { do: 'wait', for: TICK }
  const left = milliseconds(held.life - mostElapsed(held.since, now))
  return left > 0 ? { do: 'wait', for: left } : { do: 'end', ending: ending(EXIT.lost, NOT_RENEWED) }
}

const NOT_RENEWED = 'the certificate expired and RUNNER_CERT_RENEWAL=off: nothing renews it'

function attemptAfter(wait: Milliseconds, since: Moment, now: Moment, work: Work): Step {
  const left = milliseconds(wait - mostElapsed(since, now))
  return left > 0 ? { do: 'wait', for: left } : { do: 'attempt', work }
}

/** Somebody saw that the identity no longer serves (the tunnel was closed for it): renewal is due now. */
export const askRenewal = (state: State): State =>
  state.held === null || state.request !== null
    ? state
    : { ...state, held: { ...state.held, renewAfter: milliseconds(0) } }

export type After = { readonly state: State } | { readonly ending: Ending }

/** What an attempt's outcome leads to. `random` is in [0, 1). */
export function afterAttempt(
  policy: Policy,
  state: State,
  work: Work,
  outcome: Outcome,
  now: Moment,
  random: number,
): After {
  const { held, request } = state
  if (outcome.type === 'obtained') return { state: { held: hold(outcome.life, now, random), request: null } }
  const failures = (request?.failures ?? 0) + 1
  const again = (refusals: Request['refusals'], asked: Milliseconds | null): After => {
    const wait = milliseconds(
      Math.min(asked ?? backoff(failures, random), latestWait(policy, work, held, refusals, now)),
    )
    return { state: { held, request: { work, failures, last: now, wait, refusals } } }
  }
  if (outcome.type === 'unavailable') return again(request?.refusals ?? null, outcome.retryAfter)

  const { verdict } = outcome
  if (verdict === 'banned') return { ending: ending(EXIT.refused, 'this identity is banned') }
  const refusals = countRefusal(request?.refusals ?? null, verdict, now)
  if (verdict === 'protocol')
    return refusals.count < PROTOCOL_TRIES ? again(refusals, null) : { ending: NOT_UNDERSTOOD }
  // What was on disk may be long replaced: a boot tries it once and then enrolls.
  if (work === 'renew' && held?.fromDisk === true) return { state: { held: null, request: null } }
  if (verdict === 'credential' && isPatient(policy, refusals, now) && windowLeft(work, held, now) > LAST_TRY) {
    return again(refusals, null)
  }
  if (work === 'enroll') return { ending: ending(EXIT.refused, 'enrollment was refused for good') }
  if (verdict === 'window') return { ending: ending(EXIT.lost, EXPIRED) }
  if (!policy.enrollsAgain)
    return { ending: ending(EXIT.lost, 'renewal was refused for good — runner needs re-enrollment') }
  return { state: { held, request: { work: 'enroll', failures: 0, last: now, wait: milliseconds(0), refusals: null } } }
}

const NOT_UNDERSTOOD = ending(
  EXIT.protocol,
  'the control plane does not accept what this runner sends: check the versions of both',
)

function countRefusal(before: Request['refusals'], verdict: Verdict, now: Moment): NonNullable<Request['refusals']> {
  return before?.verdict === verdict ? { ...before, count: before.count + 1 } : { verdict, count: 1, since: now }
}

const isPatient = ({ patience }: Policy, { count, since }: NonNullable<Request['refusals']>, now: Moment): boolean =>
  'tries' in patience ? count < patience.tries : mostElapsed(since, now) < patience.time

/** How long a renewal still has; an enrollment has no end. */
const windowLeft = (work: Work, held: Held | null, now: Moment): number =>
  work === 'renew' && held !== null ? held.life + WINDOW - mostElapsed(held.since, now) : Number.POSITIVE_INFINITY

/** No wait outlasts what it waits for: a last try fits into the window, and at the end of the patience. */
function latestWait(
  { patience }: Policy,
  work: Work,
  held: Held | null,
  refusals: Request['refusals'],
  now: Moment,
): number {
  const limits = [Number.POSITIVE_INFINITY]
  const ahead = windowLeft(work, held, now) - LAST_TRY
  if (ahead > 0) limits.push(ahead)
  if (refusals !== null && 'time' in patience) {
    const left = patience.time - mostElapsed(refusals.since, now)
    if (left > 0) limits.push(left)
  }
  return Math.min(...limits)
}
