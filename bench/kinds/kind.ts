// A kind of request that is measured, and what its requests are made with. Types only.

import type { Shot } from '../load.ts'

export interface Kind {
  readonly name: string
  /** The status that each request must be answered with. */
  readonly status: number
  /** How many requests a run has: in a quick one, in a full one. */
  readonly requests: { readonly quick: number; readonly full: number }
  /** How many objects its requests go to in turn; default: each request has an object of its own, if any. */
  readonly objects?: number
  /** Its objects exist, but are not in memory. */
  readonly isCold?: true
  /** Measured only in a full run, or where it is named. */
  readonly isExtra?: true
  /** After so many requests an isolate answers as it does in a flood of them; default: 2. */
  readonly settlesAfter?: number
  /** Prepares what all runs share, for so many requests in all. */
  readonly begin?: (site: Site, total: number) => Promise<void>
  /** The requests of the next run. All keys, CSRs, tokens and signatures are made here, before the clock starts. */
  readonly prepare: (site: Site, count: number) => Promise<Shot[]>
}

/** What the fakes around the edge make for its clients. */
export interface Site {
  readonly url: string
  /** Fresh bootstrap tokens. */
  readonly mint: (count: number) => Promise<string[]>
  /** A token of a pod on this node. */
  readonly kubernetesToken: (node: string) => Promise<string>
  /** Evidence that AWS's STS confirms, bound to this nonce. */
  readonly awsEvidence: (challengeNonce: string) => Promise<object>
}
