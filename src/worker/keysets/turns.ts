// Lets one request of an isolate ask for a key set at a time, while others that need it wait. They wait on timers of their
// own and find a value: in Workers no request may wait on another's promise, since its I/O ends with it.

import { type Milliseconds, milliseconds } from '../../protocol/time.ts'

/** How often a waiting request looks for the answer. KV answers in about as long. */
const LOOK = milliseconds(10)
/** After so long the asking request may have been cancelled, and another asks in its place. */
const PATIENCE = milliseconds(2000)

export type Pause = (duration: Milliseconds) => Promise<void>

export const pause: Pause = (duration) => new Promise((resolve) => setTimeout(resolve, duration))

interface Turn<T> {
  /** How many requests have asked, one after another. */
  askers: number
  answer: { readonly value: T } | null
}

/** `asked`: whether it was this request; the answer of another may be to another question. */
interface Taken<T> {
  readonly value: T
  readonly asked: boolean
}

export class Turns<T> {
  readonly #pause: Pause
  readonly #turns = new Map<string, Turn<T>>()

  constructor(pause: Pause) {
    this.#pause = pause
  }

  /** Asks, or waits for the answer of the request that is asking about the same. */
  async take(about: string, ask: () => Promise<T>): Promise<Taken<T>> {
    for (let turn = this.#turns.get(about); turn !== undefined; turn = this.#turns.get(about)) {
      const answer = await this.#answerOf(about, turn)
      if (answer !== null) return { value: answer.value, asked: false }
      if (this.#turns.get(about) === turn) return this.#ask(about, turn, ask)
    }
    return this.#ask(about, { askers: 0, answer: null }, ask)
  }

  async #ask(about: string, turn: Turn<T>, ask: () => Promise<T>): Promise<Taken<T>> {
    this.#turns.set(about, turn)
    turn.askers++
    try {
      const value = await ask()
      turn.answer = { value }
      return { value, asked: true }
    } finally {
      if (this.#turns.get(about) === turn) this.#turns.delete(about)
    }
  }

  /** Null where the turn ended without an answer, or had none in time. */
  async #answerOf(about: string, turn: Turn<T>): Promise<Turn<T>['answer']> {
    let { askers } = turn
    let waited = 0
    while (turn.answer === null && this.#turns.get(about) === turn && waited < PATIENCE) {
      await this.#pause(LOOK)
      waited = turn.askers === askers ? waited + LOOK : 0
      askers = turn.askers
    }
    return turn.answer
  }
}
