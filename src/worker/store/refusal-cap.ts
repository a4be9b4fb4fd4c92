// Caps how many refusals get a row in `event`, so that a flood neither fills nor bills the database. Each isolate applies
// the caps to its own refusals; `insertRefusal` applies the same caps to those of all isolates.

import { type EpochSeconds, minutes, seconds, subtractSeconds } from '../../protocol/time.ts'

/** How many rows are written without delay within `BURST_SPAN`. After that, one a second is written. */
export const BURST = { unproven: 30, proven: 20 } as const
export const BURST_SPAN = minutes(1)
/** A reason that the tenant's proven callers were not refused for in this time is always written: it may be a clone. */
export const RARE_SPAN = seconds(10)

/**
 * The proven callers of each tenant have a cap of their own, so that no flood hides their refusals: neither of callers
 * who proved nothing, nor of callers whose identity has no tenant, as anybody with an AWS account can get.
 */
interface Refused {
  readonly proven: boolean
  readonly tenant: string | null
  readonly reason: string | null
  readonly time: EpochSeconds
}

export interface RefusalCap {
  /** Whether the refusal is within the isolate's caps; if so, it is counted. */
  readonly admits: (refused: Refused) => boolean
}

export function makeRefusalCap(): RefusalCap {
  const admitted = new Map<string, EpochSeconds[]>()
  const lastOf = new Map<string, EpochSeconds>()
  return {
    admits({ proven, tenant, reason, time: now }) {
      const cap = `${proven} ${tenant}`
      const recent = (admitted.get(cap) ?? []).filter((time) => time > subtractSeconds(now, BURST_SPAN))
      const rare = proven && (lastOf.get(`${cap} ${reason}`) ?? 0) <= subtractSeconds(now, RARE_SPAN)
      const admits = recent.length < BURST[proven ? 'proven' : 'unproven'] || recent.at(-1) !== now || rare
      if (admits) {
        recent.push(now)
        if (proven) lastOf.set(`${cap} ${reason}`, now)
      }
      admitted.set(cap, recent)
      return admits
    },
  }
}
