// Keeps a tunnel open: connects with the identity of the moment, makes the new connection before it breaks the old one
// when the identity was renewed, and backs off.

import { type Milliseconds, milliseconds } from '../../protocol/time.ts'
import { TUNNEL_CLOSE } from '../../protocol/tunnel.ts'
import type { Identity } from '../identity/identity.ts'
import type { Log } from '../log.ts'
import { backoff, CEILING } from '../renewal/backoff.ts'
import { type Moment, mostElapsed, type Time } from '../renewal/clock.ts'
import { TICK } from '../renewal/lifecycle.ts'
import type { Dial, Dialed } from './dial.ts'
import type { Link } from './socket.ts'

export interface TunnelParts {
  readonly dial: Dial
  readonly time: Time
  readonly random: () => number
  readonly log: Log
  /** The identity to connect with; null while there is none that lives. */
  readonly identity: () => Identity | null
  /** The control plane no longer accepts the identity: a renewal says what is the matter. */
  readonly onDoubt: () => void
  readonly onChange: (open: boolean) => void
  readonly onDrain: () => void
}

/** A connection that lasted so long makes the failures before it forgotten. */
const STABLE = 60_000
/** How long the former connection may be gone before the new one is ready, and the runner still be called ready. */
const CROSSING = milliseconds(1000)

export class Tunnel {
  readonly #parts: TunnelParts
  #link: Link | null = null
  #openedAt: Moment | null = null
  #failures = 0
  #wait = milliseconds(0)
  #failedAt: Moment | null = null
  #dialing = false
  /** The control plane let go of the former connection before it said that the new one is ready. */
  #crossed = false
  #wake = new AbortController()
  readonly #stop = new AbortController()

  constructor(parts: TunnelParts) {
    this.#parts = parts
  }

  get open(): boolean {
    return this.#link !== null
  }

  /** Something changed: another identity, or a stop. */
  wake(): void {
    this.#wake.abort()
  }

  async run(): Promise<void> {
    const { time } = this.#parts
    while (!this.#stop.signal.aborted) {
      const left = this.#untilDial()
      if (left > 0) {
        await time.sleep(milliseconds(Math.min(left, TICK)), this.#wake.signal)
        if (this.#wake.signal.aborted) this.#wake = new AbortController()
      } else await this.#connect()
    }
  }

  async stop(): Promise<void> {
    this.#stop.abort()
    this.wake()
    await this.#link?.close()
  }

  /** How long until a connection shall be made; `TICK` while there is nothing to make. */
  #untilDial(): Milliseconds {
    const { identity, time } = this.#parts
    const current = identity()
    if (current === null || this.#link?.identity === current) return TICK
    if (this.#failedAt === null) return milliseconds(0)
    return milliseconds(this.#wait - mostElapsed(this.#failedAt, time.now()))
  }

  async #connect(): Promise<void> {
    const { dial, identity, onChange, onDrain } = this.#parts
    const current = identity()
    if (current === null) return
    this.#crossed = false
    this.#dialing = true
    const dialed = await dial(current, this.#stop.signal)
    this.#dialing = false
    const former = this.#link
    if (dialed.type !== 'open') {
      if (this.#crossed && former !== null) this.#gone(former)
      return this.#failed(dialed)
    }
    const { link } = dialed
    if (this.#stop.signal.aborted) return link.close()
    this.#link = link
    this.#openedAt = this.#parts.time.now()
    this.#failedAt = null
    link.onDrain = onDrain
    link.closed.then((code) => this.#closed(link, code))
    if (former === null) onChange(true)
    else await former.close()
  }

  #failed(dialed: Exclude<Dialed, { type: 'open' }>): void {
    if (this.#stop.signal.aborted) return
    const refused = dialed.type === 'refused' && (dialed.code === 'attestation_invalid' || dialed.code === 'banned')
    this.#backOff('tunnel could not be opened', { why: dialed.why })
    if (refused) this.#parts.onDoubt()
  }

  #closed(link: Link, code: number): void {
    const { onDoubt, time } = this.#parts
    // One that was replaced by a newer of ours closes as it should.
    if (this.#link !== link) return
    if (this.#dialing && code === TUNNEL_CLOSE.replaced) {
      this.#crossed = true
      void time.sleep(CROSSING, this.#stop.signal).then(() => this.#gone(link))
      return
    }
    if (this.#openedAt !== null && mostElapsed(this.#openedAt, time.now()) >= STABLE) this.#failures = 0
    if (!this.#stop.signal.aborted) {
      this.#backOff('tunnel closed', { code }, code === TUNNEL_CLOSE.replaced)
      if (code === TUNNEL_CLOSE.expired || code === TUNNEL_CLOSE.standingLost) onDoubt()
    }
    this.#gone(link)
    this.wake()
  }

  #gone(link: Link): void {
    if (this.#link !== link) return
    this.#link = null
    this.#parts.onChange(false)
  }

  #backOff(message: string, fields: Readonly<Record<string, string | number>>, replaced = false): void {
    const { log, random, time } = this.#parts
    this.#failures += 1
    this.#failedAt = time.now()
    this.#wait = replaced ? CEILING : backoff(this.#failures, random())
    log('warn', replaced ? 'another connection uses this identity' : message, {
      ...fields,
      retryInSeconds: Math.ceil(this.#wait / 1000),
    })
  }
}
