// The interface of a mode in the trust file. One file a mode in this folder, listed in registry.ts.

import type { Outcome } from '../../protocol/refusals.ts'

/** Who was proven, whatever the trust file says of it. */
export interface Proven {
  /** AWS account, cluster name or empty, as the row of `MODES` says. */
  readonly source: string
  /** ARN, `sub` or token id. */
  readonly identity: string
}

/** What the trust file makes of a proven caller. */
export interface Placement {
  readonly tenant: string
  /** Null where the caller proved no runner ID. */
  readonly runnerId: string | null
}

/** `C`: the mode's claims. `T`: its part of the compiled trust file. */
export interface TrustMode<C, T> {
  readonly proven: (claims: C) => Proven
  /** `decide` checks that the tenant exists. */
  readonly place: (trust: T, claims: C) => Outcome<Placement>
  /** What tells callers of one identity apart in a rate limit; null for nothing. */
  readonly instance: ((claims: C) => string) | null
}
