// Keys for uses of their own out of CA_KEY, the one secret that every isolate has (RFC 5869).

import { utf8 } from '../../protocol/base64url.ts'

/** An HMAC-SHA-256 key for one purpose: what is sealed for one is worth nothing for another. */
export async function deriveHmacKey(caKey: string, purpose: string): Promise<CryptoKey> {
  const secret = await crypto.subtle.importKey('raw', utf8(caKey), 'HKDF', false, ['deriveKey'])
  const hkdf = { name: 'HKDF', hash: 'SHA-256', salt: new Uint8Array(32), info: utf8(purpose) }
  const hmac = { name: 'HMAC', hash: 'SHA-256', length: 256 }
  return crypto.subtle.deriveKey(hkdf, secret, hmac, false, ['sign', 'verify'])
}
