// What the steps of an enrollment depend on: made once by the composition, the same for every request. Types only.

import type { Bytes } from '../../protocol/bytes.ts'
import type { VerifiedLeaf } from '../../protocol/leaf.ts'
import type { Outcome } from '../../protocol/refusals.ts'
import type { Clock } from '../../protocol/time.ts'
import type { BanList } from '../../trust/bans.ts'
import type { CompiledTrust } from '../../trust/compiled.ts'
import type { Attestors } from '../attestors/registry.ts'
import type { Authority } from '../ca/authority.ts'
import type { EnrollmentObject } from '../fleet/enrollment-object.ts'
import type { BatchDatabase } from '../store/db.ts'
import type { RefusalCap } from '../store/refusal-cap.ts'
import type { Rate } from './rate-limit.ts'

export interface Dependencies {
  readonly clock: Clock
  readonly trust: CompiledTrust
  readonly attestors: Attestors
  readonly database: BatchDatabase
  /** Who is banned, at most 30 s old; with the database away 15 min. */
  readonly banList: () => Promise<Outcome<BanList>>
  /** Refuses while a minted token holds a runner ID that is reserved for the nodes of clusters. */
  readonly checkReservedIds: () => Promise<Outcome<null>>
  /** The object of an enrollment: addressed only once its certificate or its reservation is proven. */
  readonly enrollmentObject: (enrollmentId: string) => DurableObjectStub<EnrollmentObject>
  /** Fetches every cluster's key set anew. */
  readonly refreshKeySets: () => Promise<void>
  /** The certificate authority, loaded once an isolate; a refusal says what is missing. */
  readonly authority: () => Promise<Outcome<Authority>>
  /** The HMAC key of tunnel challenges. */
  readonly challengeKey: () => Promise<Outcome<CryptoKey>>
  /** Proves that this CA issued a leaf (DER); not that whoever presents it holds its key, nor that it is in time. */
  readonly verifyLeaf: (der: Bytes) => Promise<Outcome<VerifiedLeaf>>
  /** Which refusals get a row. */
  readonly refusalCap: RefusalCap
  /** Counts one more request of this key; false where that is over its rate. Always true where no limiter is bound. */
  readonly withinRate: (rate: Rate, key: string) => Promise<boolean>
}
