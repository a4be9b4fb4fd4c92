// The interface of a way in: evidence → what it proves, never an identity. One mode a file, listed in registry.ts.

import type { Evidence } from '../../protocol/enroll.ts'
import type { Outcome } from '../../protocol/refusals.ts'
import type { Fields } from '../../protocol/shape.ts'
import type { EpochSeconds } from '../../protocol/time.ts'
import type { Claims } from '../../trust/modes/registry.ts'

/** What an attestor may know of the request beside its own evidence. */
export interface Appraisal {
  readonly now: EpochSeconds
  /** Proven to be bound to the key of the CSR before any attestor is asked. */
  readonly challengeNonce: string
}

/** `P`: what is proven; only a renewal proves a certificate in place of claims. */
export interface Attestor<F extends Fields = Fields, P = Claims> {
  /** The fields of the mode's evidence: all demanded, no other taken. */
  readonly fields: F
  /** Judges the content. A refusal is a value; what is thrown is a bug or an outage. */
  appraise(evidence: Evidence<F>, appraisal: Appraisal): Promise<Outcome<P>>
}
