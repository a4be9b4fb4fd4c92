// Simulates a thousand days of a runner's lifecycle: outages, lost answers, suspensions, wrong clocks. The state
// machine is the real one; control plane and time are simulated.

import fc from 'fast-check'
import { expect, test } from 'vitest'
import { err, ok, type Result } from '../../../src/protocol/result.ts'
import { epochMilliseconds, type Milliseconds, milliseconds } from '../../../src/protocol/time.ts'
import { type ClockReading, TICK } from '../../../src/runner/environment/clock.ts'
import { EXIT, type Exit } from '../../../src/runner/environment/exit.ts'
import {
  type AttemptFailure,
  afterFailure,
  afterSuccess,
  isLive,
  nextStep,
  type Policy,
  type State,
} from '../../../src/runner/renewal/lifecycle.ts'

const SECOND = 1000
const MINUTE = 60 * SECOND
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR
const LIFE = 15 * MINUTE
const GRACE = 6 * MINUTE

type Incident =
  | { readonly kind: 'outage' | 'lossy' | 'busy' | 'suspend'; readonly at: number; readonly lasts: number }
  | { readonly kind: 'jump'; readonly at: number; readonly by: number }

interface Attempt {
  readonly at: number
  readonly work: string
  readonly failures: number
  /** Whether the attempt before was answered with a Retry-After of seven seconds. */
  readonly asked: boolean
  /** Whether the end of the window or a suspension was a reason to try early. */
  readonly excused: boolean
}

/** What the control plane knows of the one enrollment: certificates by their end, in true time. */
class ControlPlane {
  tip: { readonly id: number; readonly notAfter: number; used: boolean } | null = null
  parent: number | null = null
  ended = false
  #serial = 0

  enroll(now: number): number {
    this.tip = { id: ++this.#serial, notAfter: now + LIFE, used: false }
    this.parent = null
    this.ended = false
    return this.tip.id
  }

  renew(presented: { readonly id: number; readonly notAfter: number }, now: number): number | 'window' | 'clone' {
    if (now > presented.notAfter + GRACE) return 'window'
    const isTip = presented.id === this.tip?.id
    const isParent = presented.id === this.parent && this.tip?.used === false
    if (this.ended || (!isTip && !isParent)) {
      this.ended = true
      return 'clone'
    }
    if (isTip) this.parent = presented.id
    this.tip = { id: ++this.#serial, notAfter: now + LIFE, used: false }
    return this.tip.id
  }
}

function simulate(days: number, incidents: readonly Incident[], policy: Policy, random: () => number) {
  const server = new ControlPlane()
  const attempts: Attempt[] = []
  const exits: { readonly at: number; readonly exit: Exit }[] = []
  let state: State = { lifetime: null, request: null }
  let mine = null as { readonly id: number; readonly notAfter: number } | null
  let now = 0
  let offset = 0
  let disturbed = true
  let asked = false
  const pending = [...incidents].sort((a, b) => a.at - b.at)
  const during = (kind: Incident['kind']) =>
    incidents.some((one) => one.kind === kind && now >= one.at && 'lasts' in one && now < one.at + one.lasts)
  const clocks = (): ClockReading => ({
    wall: epochMilliseconds(1_790_000_000_000 + now + offset),
    uptime: milliseconds(now),
  })
  let tunnel = null as { readonly id: number } | null
  let readyFor = 0

  const happen = (): void => {
    for (let next = pending[0]; next !== undefined && next.at <= now; next = pending[0]) {
      pending.shift()
      disturbed = true
      if (next.kind === 'jump') offset += next.by
      if (next.kind === 'suspend') now += next.lasts
    }
  }

  /** What the supervisor does: a new process enrolls anew. Every way to go on must have been closed. */
  const end = (exit: Exit): void => {
    exits.push({ at: now, exit })
    const renewable = mine !== null && !server.ended && now <= mine.notAfter + GRACE
    if (exit.exitCode !== EXIT.lost || renewable) expect.fail(`it ended with ${exit.exitCode} while it could renew`)
    state = { lifetime: null, request: null }
    mine = null
    tunnel = null
    now += SECOND
    disturbed = true
  }

  while (now < days * DAY) {
    happen()
    // The control plane closes a tunnel when its certificate ends; a live identity connects while it is reachable.
    if (mine !== null && tunnel?.id === mine.id && now >= mine.notAfter) tunnel = null
    if (isLive(state.lifetime, clocks()) && mine !== null && tunnel?.id !== mine.id && !during('outage')) {
      if (now < mine.notAfter) {
        tunnel = { id: mine.id }
        if (server.tip?.id === mine.id) server.tip.used = true
      }
    }
    if (tunnel !== null && isLive(state.lifetime, clocks())) {
      readyFor += 1
      if (mine === null || now >= mine.notAfter) expect.fail('ready with a dead certificate')
    }

    const step = nextStep(policy, state, clocks())
    if (step.do === 'exit') {
      end(step.exit)
      continue
    }
    if (step.do === 'wait') {
      now += Math.min(step.for, TICK)
      continue
    }
    const left = mine === null ? Number.POSITIVE_INFINITY : mine.notAfter + GRACE - now
    const excused = disturbed || (step.work === 'renew' && left < 7 * MINUTE)
    attempts.push({ at: now, work: step.work, failures: state.request?.failures ?? 0, asked, excused })
    disturbed = false
    asked = during('busy') && !during('outage')
    const result = ((): Result<Milliseconds, Omit<AttemptFailure, 'work'>> => {
      if (during('outage')) return err({ verdict: 'later', retryAfter: null })
      if (during('busy')) return err({ verdict: 'later', retryAfter: milliseconds(7 * SECOND) })
      const got: number | 'window' | 'clone' =
        step.work === 'enroll' || mine === null ? server.enroll(now) : server.renew(mine, now)
      if (got === 'window') return err({ verdict: 'window', retryAfter: null })
      if (got === 'clone') return err({ verdict: 'credential', retryAfter: null })
      if (during('lossy')) return err({ verdict: 'later', retryAfter: null })
      mine = { id: got, notAfter: now + LIFE }
      return ok(milliseconds(LIFE))
    })()
    now += !result.ok && result.error.verdict === 'later' ? 200 : 50
    const after = result.ok
      ? ok(afterSuccess(result.value, clocks(), random(), state))
      : afterFailure(policy, state, { ...result.error, work: step.work }, clocks(), random())
    if (!after.ok) {
      end(after.error)
      continue
    }
    state = after.value
  }
  return { exits, attempts, readyFor }
}

const incident = (days: number): fc.Arbitrary<Incident> => {
  const at = fc.integer({ min: 0, max: days * DAY })
  const lasts = fc.oneof(fc.integer({ min: 1, max: 20 * MINUTE }), fc.integer({ min: 20 * MINUTE, max: 10 * HOUR }))
  const by = fc.oneof(
    fc.integer({ min: -2 * HOUR, max: 2 * HOUR }),
    fc.constantFrom(-10 * 365 * DAY, 10 * 365 * DAY, -DAY, DAY),
  )
  return fc.oneof(
    fc.record({ kind: fc.constantFrom('outage', 'lossy', 'busy', 'suspend'), at, lasts }),
    fc.record({ kind: fc.constant('jump' as const), at, by }),
  ) as fc.Arbitrary<Incident>
}

const POLICIES: Readonly<Record<string, Policy>> = {
  'a bootstrap token': {
    renews: true,
    enrollsAgain: false,
    waitsForOperator: false,
    patience: 3,
  },
  'a Kubernetes token': {
    renews: true,
    enrollsAgain: true,
    waitsForOperator: false,
    patience: Number.POSITIVE_INFINITY,
  },
}

/** Numbers in [0, 1) that a seed repeats (Park and Miller's generator). */
function dice(seed: number): () => number {
  let state = seed
  return () => {
    state = (state * 48_271) % (2 ** 31 - 1)
    return state / (2 ** 31 - 1)
  }
}

const DAYS = 10
const RUNS = 50

test.each(Object.entries(POLICIES))(
  'with %s, five hundred days of incidents leave no dead runner ready, hammering or gone too soon',
  (_name, policy) => {
    const seed = Number(process.env.SEED ?? Date.now() % 2 ** 31)
    console.info(`seed ${seed}`)
    fc.assert(
      fc.property(
        fc.array(incident(DAYS), { maxLength: 40 }),
        fc.integer({ min: 1, max: 2 ** 31 - 1 }),
        (incidents, luck) => {
          const { attempts, readyFor } = simulate(DAYS, incidents, policy, dice(luck))
          expect(readyFor).toBeGreaterThan(0)
          for (let i = 1; i < attempts.length; i++) {
            const [before, attempt] = [attempts[i - 1] as Attempt, attempts[i] as Attempt]
            if (attempt.excused) continue
            const backoff = Math.min(225, 0.75 * 2 ** (attempt.failures - 1)) * SECOND
            const least = attempt.asked ? 7 * SECOND : attempt.failures === 0 ? 3 * SECOND : backoff
            expect(attempt.at - before.at, `attempt ${i} after ${attempt.failures} failures`).toBeGreaterThanOrEqual(
              least,
            )
          }
        },
      ),
      { numRuns: RUNS, seed },
    )
  },
)

test('a month without incidents is a renewal every nine to ten minutes and nothing else', () => {
  const { exits, attempts } = simulate(30, [], POLICIES['a bootstrap token'] as Policy, () => 0.5)
  expect(exits).toEqual([])
  expect(attempts.filter(({ work }) => work === 'enroll')).toHaveLength(1)
  const gaps = attempts.slice(2).map(({ at }, i) => at - (attempts[i + 1] as Attempt).at)
  expect(Math.min(...gaps)).toBeGreaterThan(8.5 * MINUTE)
  expect(Math.max(...gaps)).toBeLessThan(10.5 * MINUTE)
})

test('an outage shorter than a third of the life and the grace together loses nothing', () => {
  const outage = { kind: 'outage', at: 9 * MINUTE, lasts: 11 * MINUTE } as const
  const { exits, attempts } = simulate(1, [outage], POLICIES['a bootstrap token'] as Policy, () => 0.5)
  expect(exits).toEqual([])
  expect(attempts.filter(({ work }) => work === 'enroll')).toHaveLength(1)
})

test('an outage that outlasts the grace ends the runner once, with the message and exit 75', () => {
  const outage = { kind: 'outage', at: 5 * MINUTE, lasts: 2 * HOUR } as const
  const { exits } = simulate(1, [outage], POLICIES['a bootstrap token'] as Policy, () => 0.5)
  expect(exits.map(({ exit }) => exit)).toEqual([
    {
      exitCode: 75,
      messages: ['identity expired beyond the renewal grace window — runner needs re-enrollment'],
    },
  ])
  const [{ at } = { at: 0 }] = exits
  expect(at).toBeGreaterThan(LIFE + GRACE)
  expect(at).toBeLessThan(LIFE + GRACE + MINUTE)
})
