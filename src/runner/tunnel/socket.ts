// Holds an open tunnel: receives its frames, pings, and gives the code that it closed with.

import type { WebSocket } from 'ws'
import { PING, PONG, parseControlFrame, TUNNEL_CLOSE } from '../../protocol/tunnel.ts'
import type { Identity } from '../identity/identity.ts'

/** In milliseconds: a dead tunnel looks open for `PING_EVERY` and `PONG_WITHIN` together, half a minute. */
const PING_EVERY = 20_000
const PONG_WITHIN = 10_000
/** A clean close waits for the other side this long, in milliseconds. */
const CLOSE_GRACE = 1000
const GOING_AWAY = 1001
/** What the platform reports for a connection that ended without a close frame (RFC 6455 §7.4.1). */
const ABNORMAL = 1006

/** What `Tunnel` needs of an open connection. */
export interface TunnelSocket {
  /** The identity that it was opened with. */
  readonly identity: Identity
  /** The close code. */
  readonly closed: Promise<number>
  /** Called when an operator asks the runner to finish. */
  onDrain: () => void
  readonly close: () => Promise<void>
}

export class ReadySocket implements TunnelSocket {
  readonly identity: Identity
  readonly closed: Promise<number>
  readonly #socket: WebSocket
  #onDrain: () => void = () => {}
  #drained = false
  #silence: NodeJS.Timeout | undefined

  /** `socket`: its `ready` frame came. */
  constructor(socket: WebSocket, identity: Identity) {
    this.#socket = socket
    this.identity = identity
    const pinging = setInterval(() => this.#ping(), PING_EVERY)
    socket.removeAllListeners('error')
    socket.on('error', () => socket.terminate())
    socket.on('message', (data, isBinary) => this.#receive(isBinary ? null : String(data)))
    this.closed = new Promise((resolve) => {
      const end = (code: number): void => {
        clearInterval(pinging)
        clearTimeout(this.#silence)
        resolve(code)
      }
      socket.on('close', end)
      if (socket.readyState === socket.CLOSED) end(ABNORMAL)
    })
  }

  /** A drain that came right behind the ready frame is not lost. */
  set onDrain(drain: () => void) {
    this.#onDrain = drain
    if (this.#drained) drain()
  }

  async close(): Promise<void> {
    this.#socket.close(GOING_AWAY)
    const limit = setTimeout(() => this.#socket.terminate(), CLOSE_GRACE)
    await this.closed
    clearTimeout(limit)
  }

  /** The edge answers each ping by itself: silence means that the connection is gone. */
  #ping(): void {
    this.#silence = setTimeout(() => this.#socket.terminate(), PONG_WITHIN)
    this.#socket.send(PING)
  }

  #receive(text: string | null): void {
    clearTimeout(this.#silence)
    if (text === PONG) return
    const frame = text === null ? null : parseControlFrame(text)
    if (frame?.type === 'drain') {
      this.#drained = true
      this.#onDrain()
    } else this.#socket.close(TUNNEL_CLOSE.protocolError)
  }
}
