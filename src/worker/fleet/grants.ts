// The renewals that were granted: with which certificate, and for which key. A replayed request is found among them.
// Pure.

import { addSeconds, type EpochSeconds } from '../../protocol/time.ts'
import { REPLAY_MEMORY_MARGIN, renewableUntil } from './windows.ts'

export interface Grant {
  /** Serial of the certificate that was presented. */
  readonly presented: string
  /** SHA-256 of the SubjectPublicKeyInfo of the new key, in hexadecimal. */
  readonly publicKeyHash: string
  /** When the presented certificate can no longer be renewed, plus a margin. */
  readonly until: EpochSeconds
}

/** One more, and the oldest is forgotten: a replay of its request is then judged like a new request. */
export const GRANTS_KEPT = 64

interface Presented {
  readonly serial: string
  readonly notAfter: EpochSeconds
}

export const isGranted = (
  grants: readonly Grant[],
  presented: Pick<Presented, 'serial'>,
  publicKeyHash: string,
): boolean => grants.some((grant) => grant.presented === presented.serial && grant.publicKeyHash === publicKeyHash)

/** The grants with one more. `forgotten`: grants dropped for lack of room whose requests could still be replayed. */
export function remember(
  grants: readonly Grant[],
  presented: Presented,
  publicKeyHash: string,
  now: EpochSeconds,
): { readonly grants: readonly Grant[]; readonly forgotten: readonly Grant[] } {
  const until = addSeconds(renewableUntil(presented), REPLAY_MEMORY_MARGIN)
  const others = grants.filter(
    (grant) => grant.until >= now && !(grant.presented === presented.serial && grant.publicKeyHash === publicKeyHash),
  )
  const all = [...others, { presented: presented.serial, publicKeyHash, until }]
  return { grants: all.slice(-GRANTS_KEPT), forgotten: all.slice(0, -GRANTS_KEPT) }
}
