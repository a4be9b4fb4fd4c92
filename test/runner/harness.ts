// Runs a runner in this process against a fake control plane, with time that only passes when told. Not a test itself.

import { generateKeyPairSync } from 'node:crypto'
import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setImmediate as turn } from 'node:timers/promises'
import { epochMilliseconds, type Milliseconds, milliseconds } from '../../src/protocol/time.ts'
import { Agent } from '../../src/runner/agent.ts'
import type { Flags } from '../../src/runner/config.ts'
import type { Ending } from '../../src/runner/exit.ts'
import type { Identity } from '../../src/runner/identity/identity.ts'
import type { HttpAnswer } from '../../src/runner/net/http.ts'
import type { Moment, Time } from '../../src/runner/renewal/clock.ts'
import type { Dial } from '../../src/runner/tunnel/dial.ts'
import type { Link } from '../../src/runner/tunnel/socket.ts'
import type { FakeControlPlane } from '../fakes/control-plane.ts'

export const SECOND = 1000
export const MINUTE = 60 * SECOND
export const HOUR = 60 * MINUTE

/** Two clocks that stand still until `pass`. */
export class FakeTime implements Time {
  // Times on the wire have whole seconds.
  wall = Math.floor(Date.now() / SECOND) * SECOND
  steady = 0
  readonly #sleepers = new Set<{ readonly until: number; readonly wake: () => void }>()

  readonly now = (): Moment => ({ wall: epochMilliseconds(this.wall), steady: milliseconds(this.steady) })

  readonly sleep = (duration: Milliseconds, signal: AbortSignal): Promise<void> =>
    new Promise((resolve) => {
      if (signal.aborted) return resolve()
      this.longest = Math.max(this.longest, duration)
      const sleeper = { until: this.steady + Math.max(1, duration), wake: resolve }
      this.#sleepers.add(sleeper)
      signal.addEventListener('abort', () => {
        this.#sleepers.delete(sleeper)
        resolve()
      })
    })

  get asleep(): number {
    return this.#sleepers.size
  }

  /** The longest that anybody has asked to sleep. */
  longest = 0

  /** Wakes the first sleeper within `limit`; false where there is none. */
  step(limit: number): boolean {
    const [first] = [...this.#sleepers].sort((a, b) => a.until - b.until)
    if (first === undefined || first.until > limit) return false
    const passed = Math.max(0, first.until - this.steady)
    this.steady += passed
    this.wall += passed
    this.#sleepers.delete(first)
    first.wake()
    return true
  }
}

export interface Line {
  readonly level: string
  readonly message: string
  readonly [field: string]: unknown
}

export class FakeLink implements Link {
  readonly identity: Identity
  readonly closed: Promise<number>
  onDrain: () => void = () => {}
  #close: (code: number) => void = () => {}
  isClosed = false

  constructor(identity: Identity) {
    this.identity = identity
    this.closed = new Promise((resolve) => {
      this.#close = resolve
    })
  }

  /** As the control plane would. */
  end(code: number): void {
    this.isClosed = true
    this.#close(code)
  }

  async close(): Promise<void> {
    this.end(1001)
  }
}

export class Harness {
  readonly time = new FakeTime()
  readonly lines: Line[] = []
  readonly text: string[] = []
  readonly links: FakeLink[] = []
  readonly announced: string[] = []
  /** Refuses, or fails, the next dials. */
  readonly dials: Awaited<ReturnType<Dial>>[] = []
  /** Called at each dial, before it is answered. */
  dialing: () => void | Promise<void> = () => {}
  readonly agent: Agent
  readonly done: Promise<Ending>
  random = 0.5
  ending: Ending | null = null
  /** Attempts that were sent and not answered. */
  #busy = 0
  #dialing = 0
  /** Dials that `dialing` holds up. */
  #pending = 0
  readonly #plane: FakeControlPlane

  constructor(plane: FakeControlPlane, env: NodeJS.ProcessEnv, flags: Flags = {}, certificates = '/nonexistent/certs') {
    this.#plane = plane
    plane.issuing.clock = () => this.time.wall
    const world = {
      env: { RUNNER_ENROLL_URL: 'https://muster.test', ...env },
      time: this.time,
      random: () => this.random,
      write: (line: string) => {
        this.text.push(line)
        this.lines.push(JSON.parse(line))
      },
      post: this.#post,
      dial: this.#dial,
      certificates,
    }
    this.agent = new Agent(world, flags, {
      onIdentity: (_identity, how) => this.announced.push(how),
      onReady: () => this.announced.push('ready'),
    })
    this.done = this.agent.run()
    this.done.then((end) => {
      this.ending = end
    })
  }

  readonly #post = async (url: URL, body: string, signal: AbortSignal): Promise<HttpAnswer> => {
    this.#busy += 1
    try {
      const request = { path: url.pathname, headers: {}, text: body, body: JSON.parse(body) }
      const answer = await Promise.race([this.#plane.answer(request, undefined as never), aborted(signal)])
      if (answer === 'taken') throw new Error('no answer within 10 s')
      const headers = new Headers({ 'content-type': 'application/json', ...answer.headers })
      return {
        status: answer.status,
        body: new TextEncoder().encode(answer.body),
        header: (name) => headers.get(name) ?? undefined,
      }
    } finally {
      this.#busy -= 1
    }
  }

  readonly #dial: Dial = async (identity) => {
    this.#dialing += 1
    this.#pending += 1
    await this.dialing()
    this.#pending -= 1
    await turn()
    const told = this.dials.shift()
    if (told !== undefined) return told
    const link = new FakeLink(identity)
    this.links.push(link)
    return { type: 'open', link }
  }

  get dialed(): number {
    return this.#dialing
  }

  /** Lets everything happen that needs no time: until all that runs sleeps, or it ended. */
  async settle(): Promise<void> {
    const limit = performance.now() + 10_000
    for (let quiet = 0; quiet < 3; ) {
      if (performance.now() > limit) throw new Error(`it never came to rest:\n${this.text.join('')}`)
      await turn()
      const resting = this.ending !== null || (this.#busy === 0 && this.time.asleep + this.#pending >= this.#loops)
      quiet = resting ? quiet + 1 : 0
    }
  }

  /** Who sleeps when nothing happens: the keeper or the wait for a token, the tunnel, the watch of a certificate. */
  get #loops(): number {
    const reached = (state: string) => this.lines.some((line) => line.state === state)
    const provisioned = this.lines.some(({ message }) => message === 'using provisioned cert')
    return 1 + (reached('connect') ? 1 : 0) + (reached('enroll') && provisioned ? 1 : 0)
  }

  /** Time passes, on both clocks. */
  async pass(duration: number): Promise<void> {
    const until = this.time.steady + duration
    do await this.settle()
    while (this.ending === null && this.time.step(until))
    const rest = until - this.time.steady
    if (rest <= 0) return
    this.time.steady += rest
    this.time.wall += rest
  }

  /** The machine sleeps: the wall clock goes on, the steady one stands still. */
  suspend(duration: number): void {
    this.time.wall += duration
  }

  messages(level?: string): string[] {
    return this.lines.filter((line) => level === undefined || line.level === level).map(({ message }) => message)
  }

  async stop(): Promise<Ending> {
    this.agent.stop()
    return this.done
  }
}

const aborted = (signal: AbortSignal): Promise<never> =>
  new Promise((_, reject) => signal.addEventListener('abort', () => reject(new Error('stopped'))))

export const scratchDir = (): string => mkdtempSync(join(tmpdir(), 'muster-runner-'))

/** A Kubernetes token in form: its signature is nothing. */
export function kubernetesToken(claims: object): string {
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
  return `${part({ alg: 'ES256', kid: 'k' })}.${part(claims)}.c2lnbmF0dXJl`
}

export const newKeyPem = (): string =>
  generateKeyPairSync('ec', { namedCurve: 'prime256v1' }).privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()
