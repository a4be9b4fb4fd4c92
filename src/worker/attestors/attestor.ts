// The interface of an attestor: from evidence to proven claims, never to an identity. One file a mode, listed in registry.ts.

import type { Evidence } from '../../protocol/enroll.ts'
import type { Outcome } from '../../protocol/refusals.ts'
import type { Fields } from '../../protocol/shape.ts'
import type { EpochSeconds } from '../../protocol/time.ts'
import type { Claims } from '../../trust/modes/registry.ts'

/** What an attestor knows of the request beside its evidence. */
export interface Appraisal {
  readonly now: EpochSeconds
  /** Already verified to be bound to the key of the CSR; empty where there is no CSR. */
  readonly challengeNonce: string
  /** Client address as the edge saw it. For rate limits alone: it proves nothing. */
  readonly address: string
}

/** `P`: what is proven. A renewal proves a certificate, every other mode claims. */
export interface Attestor<F extends Fields = Fields, P = Claims> {
  /** The fields of the mode's evidence: all are required, and no other is accepted. */
  readonly fields: F
  /** Verifies the content. Exceptions are bugs or outages. */
  appraise(evidence: Evidence<F>, appraisal: Appraisal): Promise<Outcome<P>>
}
