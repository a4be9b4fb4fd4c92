// What the trust file must say of a mode: one file a mode in this folder, listed in registry.ts.

import type { Outcome } from '../../protocol/refusals.ts'

/** Whoever proved itself, as the trust file places it. */
export interface Placement {
  readonly tenant: string
  /** Null where the mode attests no runner ID. */
  readonly runnerId: string | null
  /** As `MODES` says: AWS account, cluster name or empty. */
  readonly source: string
  /** What the operator knows the caller by: ARN, `sub`, token id. */
  readonly identity: string
}

/** `C`: what the mode proves. `T`: the part of the compiled trust file that is the mode's own. */
export interface TrustMode<C, T> {
  /** Whether there is such a tenant is for `decide` to say. */
  readonly place: (trust: T, claims: C) => Outcome<Placement>
  /** What counts as one client in a rate limit. */
  readonly clientOf: (claims: C, placement: Placement) => string
}

export const clientByIdentity = (_: unknown, { identity }: Placement): string => identity
