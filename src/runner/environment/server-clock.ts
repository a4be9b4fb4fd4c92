// Keeps the control plane's time, as its answers tell it. Whatever contains a time that the control plane checks is made
// by this clock, so that a machine with a wrong clock is not refused.

import {
  type Clock,
  type EpochMilliseconds,
  epochMilliseconds,
  type Milliseconds,
  milliseconds,
} from '../../protocol/time.ts'
import type { ClockReading, Clocks } from './clock.ts'

export class ServerClock {
  readonly #clocks: Clocks
  #told: { readonly time: EpochMilliseconds; readonly at: ClockReading } | null = null

  constructor(clocks: Clocks) {
    this.#clocks = clocks
  }

  /** This machine's time until an answer told another. A wall clock that is set meanwhile changes nothing. */
  readonly now: Clock = () => {
    const { wall, uptime } = this.#clocks.now()
    return this.#told === null ? wall : epochMilliseconds(this.#told.time + uptime - this.#told.at.uptime)
  }

  /** Sets the clock to the time of an answer that came just now. Gives how far it is ahead of this machine's clock. */
  tell(time: EpochMilliseconds): Milliseconds {
    const at = this.#clocks.now()
    this.#told = { time, at }
    return milliseconds(time - at.wall)
  }
}
