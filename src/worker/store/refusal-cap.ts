// Caps how many refusals get a row in `event`, so that a flood neither fills nor bills the database. Each isolate applies
// the caps to its own refusals; `insertRefusal` applies the same caps to those of all isolates.

import type { Reason } from '../../protocol/reasons.ts'
import { type EpochSeconds, minutes, seconds, subtractSeconds } from '../../protocol/time.ts'

/** So many rows within `BURST_SPAN` are written at once, further ones one a second. */
export const BURST = { unproven: 30, proven: 20 } as const
export const BURST_SPAN = minutes(1)
/** A reason that no proven caller had for so long is always written, since it may be a clone. */
export const RARE_SPAN = seconds(10)

/** Proven callers have a cap of their own, so that a flood of others does not hide them. */
export type Proof = keyof typeof BURST

export interface RefusalCap {
  /** Whether the refusal is within the isolate's caps; if so, it is counted. */
  readonly admits: (proof: Proof, reason: Reason, now: EpochSeconds) => boolean
}

export function makeRefusalCap(): RefusalCap {
  const admitted: Record<Proof, EpochSeconds[]> = { unproven: [], proven: [] }
  const lastOf = new Map<Reason, EpochSeconds>()
  return {
    admits(proof, reason, now) {
      const recent = admitted[proof].filter((time) => time > subtractSeconds(now, BURST_SPAN))
      const rare = proof === 'proven' && (lastOf.get(reason) ?? 0) <= subtractSeconds(now, RARE_SPAN)
      const admits = recent.length < BURST[proof] || recent.at(-1) !== now || rare
      if (admits) {
        recent.push(now)
        if (proof === 'proven') lastOf.set(reason, now)
      }
      admitted[proof] = recent
      return admits
    },
  }
}
