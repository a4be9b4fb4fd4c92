// Bodies and streams from outside, read to a limit. What a peer announces proves nothing, and compression hides the
// size: what comes is counted. No I/O of its own.

import type { Bytes } from './base64url.ts'

/** All that comes of `chunks`, or null where it is more than `limit` bytes: reading stops there and cancels the rest. */
export async function readUpTo(chunks: AsyncIterable<Uint8Array> | null, limit: number): Promise<Bytes | null> {
  const kept: Uint8Array[] = []
  let length = 0
  for await (const chunk of chunks ?? []) {
    length += chunk.byteLength
    if (length > limit) return null
    kept.push(chunk)
  }
  const whole = new Uint8Array(length)
  let offset = 0
  for (const chunk of kept) {
    whole.set(chunk, offset)
    offset += chunk.byteLength
  }
  return whole
}
