// The signatures of the last first certificates, in isolate memory, until D1 has them: signing again gives other bytes.

import type { Bytes } from '../../protocol/bytes.ts'

/** Enough for the seconds that D1 may take, at 1,000 enrollments in a second. */
const KEPT = 10_000

export interface KeptSignatures {
  readonly get: (serial: string) => Bytes | null
  /** The signature to answer with: the first one that was kept for the serial. */
  readonly keep: (serial: string, signature: Bytes) => Bytes
}

export function makeKeptSignatures(most = KEPT): KeptSignatures {
  const kept = new Map<string, Bytes>()
  return {
    get: (serial) => kept.get(serial) ?? null,
    keep: (serial, signature) => {
      const first = kept.get(serial)
      if (first !== undefined) return first
      // A Map gives its keys in the order in which they came.
      const [oldest] = kept.size < most ? [] : kept.keys()
      if (oldest !== undefined) kept.delete(oldest)
      kept.set(serial, signature)
      return signature
    },
  }
}
