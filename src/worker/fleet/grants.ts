// The renewals that were granted: by which certificate, and for which key. A request that comes again is known by them.
// Pure.

import { addSeconds, type EpochSeconds } from '../../protocol/time.ts'
import { REPLAY_MEMORY_MARGIN, renewableUntil } from './windows.ts'

export interface Grant {
  /** Serial of the certificate that was presented. */
  readonly presented: string
  /** The key that was asked for: SHA-256 of its SubjectPublicKeyInfo, in hexadecimal. */
  readonly publicKeyHash: string
  /** When the presented certificate can no longer be renewed, and a margin. */
  readonly until: EpochSeconds
}

/** At the next one the oldest is forgotten: a request of that age that comes again is judged like a new one. */
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

/** The grants with one more. `forgotten`: those that there was no room for, though they could still come again. */
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
