// What the steps of an enrollment work with: made once by the composition, the same for every request. Types only.

import type { Bytes } from '../../protocol/base64url.ts'
import type { Outcome } from '../../protocol/refusals.ts'
import type { Clock } from '../../protocol/time.ts'
import type { BanList } from '../../trust/bans.ts'
import type { CompiledTrust } from '../../trust/compiled.ts'
import type { Attestors } from '../attestors/registry.ts'
import type { Authority } from '../ca/authority.ts'
import type { Presented } from '../ca/presented.ts'
import type { Runner } from '../fleet/enrollment-object.ts'
import type { BatchDatabase } from '../store/db.ts'
import type { RefusalGate } from '../store/refusal-gate.ts'

export interface Door {
  readonly clock: Clock
  readonly trust: CompiledTrust
  readonly attestors: Attestors
  readonly database: BatchDatabase
  /** Who is cut off, at most 30 s old; with the database away 15 min. */
  readonly banList: () => Promise<Outcome<BanList>>
  /** Says no while a minted token holds a runner ID that is reserved for workloads of clusters. */
  readonly reservedIds: () => Promise<Outcome<null>>
  /** The object of an enrollment: addressed only once its certificate or its reservation is proven. */
  readonly runnerOf: (enrollmentId: string) => DurableObjectStub<Runner>
  /** Has every cluster's key set fetched anew. */
  readonly refreshKeySets: () => Promise<void>
  /** The certificate authority, loaded once an isolate; a refusal says what is missing. */
  readonly authority: () => Promise<Outcome<Authority>>
  /** What challenges of the tunnel are sealed with. */
  readonly challengeKey: () => Promise<Outcome<CryptoKey>>
  /** Proves a leaf in DER to be ours; not yet that whoever shows it holds its key, nor that it is in time. */
  readonly proveLeaf: (der: Bytes) => Promise<Outcome<Presented>>
  /** Which refusals get a row. */
  readonly refusalGate: RefusalGate
  /** Whether one more of this key is within its rate; always true where no rate limiter is bound. */
  readonly withinRate: (rate: Rate, key: string) => Promise<boolean>
}

/** `failures` counts refusals by client address, the others requests that proved who they are. */
export type Rate = 'failures' | 'identities' | 'tenants'
