// Keeps a tunnel open: dials with the current identity, makes the new connection before it breaks the old one when the
// identity was renewed, and backs off.

import { type Milliseconds, milliseconds } from '../../protocol/time.ts'
import { TUNNEL_CLOSE } from '../../protocol/tunnel.ts'
import { type ClockReading, type Clocks, elapsed, TICK } from '../environment/clock.ts'
import type { Log } from '../environment/log.ts'
import type { Identity } from '../identity/identity.ts'
import { BACKOFF_CEILING, backoff } from '../net/backoff.ts'
import type { RequestFailure } from '../net/http.ts'
import type { Dial } from './dial.ts'
import type { TunnelSocket } from './socket.ts'

export interface TunnelParts {
  readonly dial: Dial
  readonly clocks: Clocks
  readonly random: () => number
  readonly log: Log
  /** The identity to connect with; null while there is none that lives. */
  readonly identity: () => Identity | null
  /** The control plane no longer accepts the identity; a renewal will tell why. */
  readonly onRejected: () => void
  readonly onChange: (open: boolean) => void
  readonly onDrain: () => void
}

/** A connection that lasted so long resets the backoff. In milliseconds. */
const STABLE = 60_000
/** How long the runner stays ready between the end of the former connection and the ready frame of the new one. */
const HANDOVER_GRACE = milliseconds(1000)

export class Tunnel {
  readonly #parts: TunnelParts
  #socket: TunnelSocket | null = null
  #openedAt: ClockReading | null = null
  #failures = 0
  #wait = milliseconds(0)
  #failedAt: ClockReading | null = null
  #dialing = false
  /** The control plane closed the former connection before the ready frame of the new one. */
  #formerClosed = false
  #wake = new AbortController()
  readonly #stop = new AbortController()

  constructor(parts: TunnelParts) {
    this.#parts = parts
  }

  get open(): boolean {
    return this.#socket !== null
  }

  /** Something changed: another identity, or a stop. */
  wake(): void {
    this.#wake.abort()
  }

  async run(): Promise<void> {
    const { clocks } = this.#parts
    while (!this.#stop.signal.aborted) {
      const left = this.#untilDial()
      if (left > 0) {
        await clocks.sleep(milliseconds(Math.min(left, TICK)), this.#wake.signal)
        if (this.#wake.signal.aborted) this.#wake = new AbortController()
      } else await this.#open()
    }
  }

  async stop(): Promise<void> {
    this.#stop.abort()
    this.wake()
    await this.#socket?.close()
  }

  /** How long until the next dial; `TICK` while none is due. */
  #untilDial(): Milliseconds {
    const { clocks, identity } = this.#parts
    const current = identity()
    if (current === null || this.#socket?.identity === current) return TICK
    if (this.#failedAt === null) return milliseconds(0)
    return milliseconds(this.#wait - elapsed(this.#failedAt, clocks.now()))
  }

  async #open(): Promise<void> {
    const { clocks, dial, identity, onChange, onDrain } = this.#parts
    const current = identity()
    if (current === null) return
    this.#formerClosed = false
    this.#dialing = true
    const opened = await dial(current, this.#stop.signal)
    this.#dialing = false
    const former = this.#socket
    if (!opened.ok) {
      if (this.#formerClosed && former !== null) this.#drop(former)
      return this.#failed(opened.error)
    }
    const socket = opened.value
    if (this.#stop.signal.aborted) return socket.close()
    this.#socket = socket
    this.#openedAt = clocks.now()
    this.#failedAt = null
    socket.onDrain = onDrain
    socket.closed.then((code) => this.#closed(socket, code))
    if (former === null) onChange(true)
    else await former.close()
  }

  #failed({ why, problem }: RequestFailure): void {
    if (this.#stop.signal.aborted) return
    this.#backOff('tunnel could not be opened', { why })
    if (problem?.code === 'attestation_invalid' || problem?.code === 'banned') this.#parts.onRejected()
  }

  #closed(socket: TunnelSocket, code: number): void {
    const { clocks, onRejected } = this.#parts
    // We replaced it ourselves.
    if (this.#socket !== socket) return
    if (this.#dialing && code === TUNNEL_CLOSE.replaced) {
      this.#formerClosed = true
      void clocks.sleep(HANDOVER_GRACE, this.#stop.signal).then(() => this.#drop(socket))
      return
    }
    if (this.#openedAt !== null && elapsed(this.#openedAt, clocks.now()) >= STABLE) this.#failures = 0
    if (!this.#stop.signal.aborted) {
      this.#backOff('tunnel closed', { code }, code === TUNNEL_CLOSE.replaced)
      if (code === TUNNEL_CLOSE.expired || code === TUNNEL_CLOSE.unauthorized) onRejected()
    }
    this.#drop(socket)
    this.wake()
  }

  #drop(socket: TunnelSocket): void {
    if (this.#socket !== socket) return
    this.#socket = null
    this.#parts.onChange(false)
  }

  #backOff(message: string, fields: Readonly<Record<string, string | number>>, replaced = false): void {
    const { clocks, log, random } = this.#parts
    this.#failures += 1
    this.#failedAt = clocks.now()
    this.#wait = replaced ? BACKOFF_CEILING : backoff(this.#failures, random())
    log('warn', replaced ? 'another connection uses this identity' : message, {
      ...fields,
      retryInSeconds: Math.ceil(this.#wait / 1000),
    })
  }
}
