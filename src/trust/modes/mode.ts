// The interface of a mode in the trust file. One file a mode in this folder, listed in registry.ts.

import type { Outcome } from '../../protocol/refusals.ts'

/** Tenant and names of a proven caller, by the trust file. */
export interface Placement {
  readonly tenant: string
  /** Null where the mode attests no runner ID. */
  readonly runnerId: string | null
  /** AWS account, cluster name or empty, as the row of `MODES` says. */
  readonly source: string
  /** ARN, `sub` or token id. */
  readonly identity: string
}

/** `C`: the mode's claims. `T`: its part of the compiled trust file. */
export interface TrustMode<C, T> {
  /** `decide` checks that the tenant exists. */
  readonly place: (trust: T, claims: C) => Outcome<Placement>
  /** The key that a caller counts under in a rate limit. */
  readonly clientOf: (claims: C, placement: Placement) => string
}

export const clientByIdentity = (_: unknown, { identity }: Placement): string => identity
