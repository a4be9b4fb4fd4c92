// What a call to the object of an enrollment says and answers. Types only.

import type { Outcome, Refusal } from '../../protocol/refusals.ts'
import type { Decision } from '../../trust/decide.ts'
import type { SignedLeaf } from './lineage.ts'
import type { PresentedLeaf } from './record.ts'

/** The outcome of a call. */
export interface Answer<T> {
  /** The identity on record, also where the call is refused. Null without a record. */
  readonly known: Decision | null
  readonly result: Outcome<T>
}

/** The outcome of a renewal. Small, since it is copied: the candidate is not sent back. */
export interface RenewalAnswer {
  /** The identity on record, also where the renewal is refused; null without a record. */
  readonly identity: string | null
  readonly runnerId: string | null
  /** Null: granted. */
  readonly refusal: Refusal | null
  /** The certificate that was granted to the same request before; null: the candidate is granted. */
  readonly again: SignedLeaf | null
}

/** The enrollment, for an object that does not know it yet. Its tenant says in which shard it is on record. */
export interface NamedEnrollment {
  readonly enrollmentId: string
  readonly tenant: string
}

/** Who uses the enrollment: the holder of a certificate, or null, whoever asks for the enrollment itself. */
export interface UseCaller extends NamedEnrollment {
  readonly presented: PresentedLeaf | null
}
