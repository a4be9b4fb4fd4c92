// Shares the connections of a Worker among the fetches of key sets, so that a stalled issuer delays no other issuer.

import { type Milliseconds, milliseconds } from '../../../protocol/time.ts'
import type { FetchFunction } from './fetch.ts'

/** How many fetches may wait for response headers at once; the runtime queues others (Workers, Platform, Limits). */
const CONNECTIONS = 6
/** Within this time every waiting fetch gets a connection once. It is half of a fetch's time-out. */
const ROUND = milliseconds(1500)
const TICK = milliseconds(50)

/** One fetch's use of a connection. */
interface Turn {
  readonly controller: AbortController
  ticks: number
}

interface Waiting {
  readonly turn: Turn
  readonly start: () => void
}

export class Connections {
  readonly #turns: Turn[] = []
  readonly #waiting: Waiting[] = []
  #timer: ReturnType<typeof setInterval> | null = null

  /**
   * `fetch`, where requests take turns. While others wait, a request that has had its share of a round is aborted, and
   * made again after them until its own signal ends it.
   */
  through(fetch: FetchFunction): FetchFunction {
    return async (url, init) => {
      for (;;) {
        const turn: Turn = { controller: new AbortController(), ticks: 0 }
        await this.#begin(turn, init.signal)
        try {
          return await fetch(url, { ...init, signal: AbortSignal.any([init.signal, turn.controller.signal]) })
        } catch (error) {
          if (init.signal.aborted || !turn.controller.signal.aborted) throw error
        } finally {
          this.#end(turn)
        }
      }
    }
  }

  async #begin(turn: Turn, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted()
    if (this.#turns.length < CONNECTIONS) {
      this.#turns.push(turn)
      return
    }
    await new Promise<void>((start, fail) => {
      this.#waiting.push({ turn, start })
      const leave = () => {
        remove(this.#waiting, ({ turn: other }) => other === turn)
        fail(signal.reason)
      }
      signal.addEventListener('abort', leave, { once: true })
      this.#timer ??= setInterval(() => this.#tick(), TICK)
    })
  }

  #end(turn: Turn): void {
    if (!remove(this.#turns, (other) => other === turn)) return
    const next = this.#waiting.shift()
    if (next === undefined) return
    this.#turns.push(next.turn)
    next.start()
  }

  /** Aborts requests that have had their share, at most as many as are waiting. */
  #tick(): void {
    if (this.#waiting.length === 0) {
      if (this.#timer !== null) clearInterval(this.#timer)
      this.#timer = null
      return
    }
    const share = shareOf(this.#turns.length + this.#waiting.length)
    for (const turn of this.#turns) turn.ticks++
    const over = this.#turns.filter(({ ticks }) => ticks * TICK >= share).slice(0, this.#waiting.length)
    for (const turn of over) {
      turn.controller.abort()
      this.#end(turn)
    }
  }
}

const shareOf = (requests: number): Milliseconds => milliseconds((ROUND * CONNECTIONS) / requests)

/** Removes the first such entry. Gives whether there was one. */
function remove<T>(list: T[], isMeant: (entry: T) => boolean): boolean {
  const at = list.findIndex(isMeant)
  if (at !== -1) list.splice(at, 1)
  return at !== -1
}
