// The record that the KeyDirectory keeps of one cluster, and what can be told from the record alone. Pure.

import { KEY_SET_BACKOFF } from '../../protocol/limits.ts'
import type { Refusal } from '../../protocol/refusals.ts'
import {
  type EpochMilliseconds,
  epochMilliseconds,
  type Seconds,
  seconds,
  toMilliseconds,
} from '../../protocol/time.ts'
import type { KeySet } from './jwks/parse.ts'

export interface ClusterRecord {
  /** Name of its KV entry. Another name means another issuer or source, so the record is dropped. */
  readonly entry: string
  /** The last good set. It is compared with other clusters' sets however old it is. */
  readonly set: KeySet | null
  /** When `set` was fetched. */
  readonly fetchedAt: EpochMilliseconds | null
  /** Thumbprints of a later set without a usable key. They are compared with other clusters' sets, too. */
  readonly unusable: readonly string[]
  /** Start of the last attempt, written before it is made. */
  readonly attemptedAt: EpochMilliseconds | null
  /** Whether an attempt ever ended, successful or not. */
  readonly tried: boolean
  readonly failures: number
  readonly fault: Refusal | null
  /** Start of the last attempt that an unknown `kid` caused. */
  readonly refetchedAt: EpochMilliseconds | null
}

export const UNTRIED: Omit<ClusterRecord, 'entry'> = {
  set: null,
  fetchedAt: null,
  unusable: [],
  attemptedAt: null,
  tried: false,
  failures: 0,
  fault: null,
  refetchedAt: null,
}

export const thumbprintsOf = ({ set, unusable }: ClusterRecord): readonly string[] => [
  ...new Set([...(set?.thumbprints ?? []), ...unusable]),
]

/**
 * Whether a set has no usable key. Issuers publish such sets by accident, so it does not replace a good one. A set with
 * exposed private keys does, since those keys must not be used again.
 */
export const hasNothingToUse = ({ keys, exposed }: KeySet): boolean => keys.length === 0 && exposed.length === 0

export const NOTHING_TO_USE: Refusal = {
  reason: 'keys_none_usable',
  detail: 'the issuer publishes no key that could verify a token',
}

/** When a cluster without a set may be fetched again: back-off from the last attempt, without jitter. Null: at once. */
export function retryAt({ attemptedAt, failures }: ClusterRecord): EpochMilliseconds | null {
  if (attemptedAt === null || failures === 0) return null
  const { least, most } = KEY_SET_BACKOFF
  return after(attemptedAt, seconds(Math.min(least * 2 ** (failures - 1), most)))
}

export const after = (time: EpochMilliseconds, span: Seconds): EpochMilliseconds =>
  epochMilliseconds(time + toMilliseconds(span))
