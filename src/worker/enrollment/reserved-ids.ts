// The guard of the reserved `/`: `<cluster>/<node>` names workloads, so no minted token may carry such an ID.

import { type Outcome, refuse } from '../../protocol/refusals.ts'
import { ok } from '../../protocol/result.ts'
import { type Clock, type EpochSeconds, seconds, subtractSeconds, toEpochSeconds } from '../../protocol/time.ts'

/** A revoked token reopens the door, and a new one closes it, after so long. */
const KEPT = seconds(10)

/**
 * Says no while a live minted token holds a reserved ID. `find` gives such an ID or null. An isolate keeps the
 * answer, so that a door in order costs nothing more.
 */
export function keepReservedIdGuard(
  find: (now: EpochSeconds) => Promise<string | null>,
  clock: Clock,
): () => Promise<Outcome<null>> {
  let kept: { readonly id: string | null; readonly at: EpochSeconds } | null = null
  return async () => {
    const now = toEpochSeconds(clock())
    if (kept === null || kept.at <= subtractSeconds(now, KEPT)) kept = { id: await find(now), at: now }
    if (kept.id === null) return ok(null)
    return refuse('slash_in_runner_id', { detail: 'a minted runner ID holds "/", which is reserved for clusters' })
  }
}
