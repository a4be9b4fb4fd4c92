// Runs a runner in this process against a fake control plane, with a fake clock. Not a test itself.

import { generateKeyPairSync } from 'node:crypto'
import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setImmediate as turn } from 'node:timers/promises'
import type { HttpAnswer } from '../../src/node/http-client.ts'
import { ok } from '../../src/protocol/result.ts'
import { epochMilliseconds, type Milliseconds, milliseconds } from '../../src/protocol/time.ts'
import { Agent } from '../../src/runner/agent.ts'
import type { Flags } from '../../src/runner/environment/arguments.ts'
import type { ClockReading, Clocks } from '../../src/runner/environment/clock.ts'
import type { Exit } from '../../src/runner/environment/exit.ts'
import type { Identity } from '../../src/runner/identity/identity.ts'
import { type RequestResult, requestFailed } from '../../src/runner/net/http.ts'
import type { Dial } from '../../src/runner/tunnel/dial.ts'
import type { TunnelSocket } from '../../src/runner/tunnel/socket.ts'
import type { FakeControlPlane } from '../fakes/control-plane.ts'

export const SECOND = 1000
export const MINUTE = 60 * SECOND
export const HOUR = 60 * MINUTE

/** Clocks that stand still until `pass`. */
export class FakeClocks implements Clocks {
  // Times on the wire have whole seconds.
  wall = Math.floor(Date.now() / SECOND) * SECOND
  /** What timers go by: it stands still while the machine sleeps. */
  monotonic = 0
  /** How long the machine slept. */
  asleepFor = 0
  readonly #sleepers = new Set<{ readonly until: number; readonly wake: () => void }>()

  readonly now = (): ClockReading => ({
    wall: epochMilliseconds(this.wall),
    uptime: milliseconds(this.monotonic + this.asleepFor),
  })

  readonly sleep = (duration: Milliseconds, signal: AbortSignal): Promise<void> =>
    new Promise((resolve) => {
      if (signal.aborted) return resolve()
      this.longest = Math.max(this.longest, duration)
      const sleeper = { until: this.monotonic + Math.max(1, duration), wake: resolve }
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
    const passed = Math.max(0, first.until - this.monotonic)
    this.monotonic += passed
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

export class FakeSocket implements TunnelSocket {
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
  readonly clocks = new FakeClocks()
  readonly lines: Line[] = []
  readonly text: string[] = []
  readonly sockets: FakeSocket[] = []
  readonly announced: string[] = []
  /** Refuses, or fails, the next dials. */
  readonly dials: Awaited<ReturnType<Dial>>[] = []
  /** Called at each dial, before it is answered. */
  dialing: () => void | Promise<void> = () => {}
  readonly agent: Agent
  readonly done: Promise<Exit>
  random = 0.5
  exit: Exit | null = null
  /** Attempts that were sent and not answered. */
  #busy = 0
  #dialing = 0
  /** Dials that `dialing` holds up. */
  #pending = 0
  readonly #plane: FakeControlPlane

  constructor(plane: FakeControlPlane, env: NodeJS.ProcessEnv, flags: Flags = {}, certificates = '/nonexistent/certs') {
    this.#plane = plane
    plane.issuing.clock = () => this.clocks.wall
    const system = {
      env: { RUNNER_ENROLL_URL: 'https://muster.test', ...env },
      clocks: this.clocks,
      random: () => this.random,
      write: (line: string) => {
        this.text.push(line)
        this.lines.push(JSON.parse(line))
      },
      post: this.#post,
      dial: this.#dial,
      certificates,
    }
    this.agent = new Agent(system, flags, {
      onIdentity: (_identity, how) => this.announced.push(how),
      onReady: () => this.announced.push('ready'),
    })
    this.done = this.agent.run()
    this.done.then((exit) => {
      this.exit = exit
    })
  }

  readonly #post = async (url: URL, body: string, signal: AbortSignal): Promise<RequestResult<HttpAnswer>> => {
    this.#busy += 1
    try {
      const request = { path: url.pathname, headers: {}, text: body, body: JSON.parse(body) }
      const answer = await Promise.race([this.#plane.answer(request, undefined as never), aborted(signal)])
      if (answer === 'taken') return requestFailed('no answer within 10 s')
      if (answer === 'stopped') return requestFailed('stopped')
      const headers = new Headers({ 'content-type': 'application/json', ...answer.headers })
      return ok({
        status: answer.status,
        body: new TextEncoder().encode(answer.body),
        header: (name) => headers.get(name) ?? undefined,
      })
    } catch (error) {
      // The fake cannot issue past the end of its CA: then it gives no answer.
      return requestFailed(String(error))
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
    const scripted = this.dials.shift()
    if (scripted !== undefined) return scripted
    const socket = new FakeSocket(identity)
    this.sockets.push(socket)
    return ok(socket)
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
      const resting = this.exit !== null || (this.#busy === 0 && this.clocks.asleep + this.#pending >= this.#loops)
      quiet = resting ? quiet + 1 : 0
    }
  }

  /** Who sleeps when nothing happens: the rotator or the wait for a token, the tunnel, the watch of a certificate. */
  get #loops(): number {
    const reached = (state: string) => this.lines.some((line) => line.state === state)
    const provisioned = this.lines.some(({ message }) => message === 'using provisioned cert')
    return 1 + (reached('connect') ? 1 : 0) + (reached('enroll') && provisioned ? 1 : 0)
  }

  /** Time passes, on both clocks. */
  async pass(duration: number): Promise<void> {
    const until = this.clocks.monotonic + duration
    do await this.settle()
    while (this.exit === null && this.clocks.step(until))
    const rest = until - this.clocks.monotonic
    if (rest <= 0) return
    this.clocks.monotonic += rest
    this.clocks.wall += rest
  }

  /** The machine sleeps: both clocks go on, timers stand still. */
  suspend(duration: number): void {
    this.clocks.wall += duration
    this.clocks.asleepFor += duration
  }

  /** The boot states that it went through. */
  get states(): unknown[] {
    return this.lines.flatMap(({ state }) => (state === undefined ? [] : [state]))
  }

  messages(level?: string): string[] {
    return this.lines.filter((line) => level === undefined || line.level === level).map(({ message }) => message)
  }

  async stop(): Promise<Exit> {
    this.agent.stop()
    return this.done
  }
}

const aborted = (signal: AbortSignal): Promise<'stopped'> =>
  new Promise((resolve) => signal.addEventListener('abort', () => resolve('stopped')))

export const scratchDir = (): string => mkdtempSync(join(tmpdir(), 'muster-runner-'))

/** A Kubernetes token in form: its signature is nothing. */
export function kubernetesToken(claims: object): string {
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
  return `${part({ alg: 'ES256', kid: 'k' })}.${part(claims)}.c2lnbmF0dXJl`
}

export const newKeyPem = (): string =>
  generateKeyPairSync('ec', { namedCurve: 'prime256v1' }).privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()
