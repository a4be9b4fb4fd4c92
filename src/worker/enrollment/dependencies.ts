// What the steps of a request depend on, made once an isolate by compose.ts. Types only.

import type { Bytes } from '../../protocol/bytes.ts'
import type { VerifiedLeaf } from '../../protocol/leaf.ts'
import type { Outcome } from '../../protocol/refusals.ts'
import type { Clock } from '../../protocol/time.ts'
import type { CompiledTrust } from '../../trust/compiled.ts'
import type { Shards } from '../../trust/shards.ts'
import type { Attestors } from '../attestors/registry.ts'
import type { Authority } from '../ca/authority.ts'
import type { EnrollmentObject } from '../fleet/enrollment-object.ts'
import type { RefusalCap } from '../store/refusal-cap.ts'
import type { Shard } from '../store/shard.ts'
import type { KeptSignatures } from './kept-signatures.ts'
import type { Rate } from './rate-limit.ts'

export interface Dependencies {
  readonly clock: Clock
  readonly trust: CompiledTrust
  readonly attestors: Attestors
  readonly shards: Shards<Shard>
  readonly keptSignatures: KeptSignatures
  /** The object of an enrollment. Call it only once the certificate is verified or the enrollment is reserved. */
  readonly enrollmentObject: (enrollmentId: string) => DurableObjectStub<EnrollmentObject>
  /** Fetches every cluster's key set anew. */
  readonly refreshKeySets: () => Promise<void>
  /** Loaded once an isolate. A refusal names what is missing. */
  readonly authority: () => Promise<Outcome<Authority>>
  /** The `spiffe_sequence` of the authority's trust bundle. */
  readonly bundleSequence: (authority: Authority) => Promise<number>
  /** The HMAC key of tunnel challenges. */
  readonly challengeKey: () => Promise<Outcome<CryptoKey>>
  /** Verifies that this CA issued the leaf (DER). Its times are not judged. */
  readonly verifyLeaf: (der: Bytes) => Promise<Outcome<VerifiedLeaf>>
  /** Which refusals get a row in D1. */
  readonly refusalCap: RefusalCap
  /** Counts one request under this key; false where it is over the rate. Always true without a bound limiter. */
  readonly withinRate: (rate: Rate, key: string) => Promise<boolean>
}
