// Key identifiers of certificates.

import type { Bytes } from '../../protocol/base64url.ts'

/** RFC 7093 §2 method 1: the leftmost 160 bits of the SHA-256 of the public key (contents of its BIT STRING). */
export const KEY_IDENTIFIER_BYTES = 20

export async function keyIdentifierOf(publicKey: Bytes): Promise<Bytes> {
  return new Uint8Array(await crypto.subtle.digest('SHA-256', publicKey)).subarray(0, KEY_IDENTIFIER_BYTES)
}
