// Keeps the control plane's time, as far as its answers have told it. What carries a time that the control plane judges
// is made by this clock, so that a machine whose own clock is wrong is not refused for it.

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

  /** An answer that came right now has this time. Gives by how much it is ahead of this machine's. */
  tell(time: EpochMilliseconds): Milliseconds {
    const at = this.#clocks.now()
    this.#told = { time, at }
    return milliseconds(time - at.wall)
  }
}
