// Which refusals get a row: enough to see what goes on and to explain the latest, too few to fill or bill anything.
// The same rule twice: here for an isolate, so that a flood stops before D1, and in the statement for the world.

import type { Reason } from '../../protocol/reasons.ts'
import { type EpochSeconds, minutes, seconds, subtractSeconds } from '../../protocol/time.ts'

/** Rows within `BURST_SPAN` that are written as they come; after them one a second. */
export const BURST = { unproven: 30, proven: 20 } as const
export const BURST_SPAN = minutes(1)
/** Of those who proved something a reason that was not seen for so long is always written: it may be a clone. */
export const RARE_SPAN = seconds(10)

/** Whether the caller had proven anything: garbage must not hide those who did. */
export type Proof = keyof typeof BURST

export interface RefusalCap {
  /** Whether the database is worth asking for room; counts it as written. */
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
