// Makes and verifies the challenges of the tunnel, without state: base64url(expiry[4] ‖ random[16] ‖ HMAC[32]).
// The enrollment's object accepts each once, and before it expires: whoever forgets a challenge must check its end.

import { type Bytes, decodeBase64url, encodeBase64url } from '../../protocol/bytes.ts'
import { addSeconds, type EpochSeconds, epochSeconds, rfc3339, seconds } from '../../protocol/time.ts'
import type { TunnelChallenge } from '../../protocol/tunnel.ts'

export const CHALLENGE_PURPOSE = 'muster tunnel challenge'

const LIFE = seconds(30)
const EXPIRY_BYTES = 4
const BODY_BYTES = EXPIRY_BYTES + 16
const MAC_BYTES = 32

export async function makeChallenge(key: CryptoKey, now: EpochSeconds): Promise<TunnelChallenge> {
  const expiresAt = addSeconds(now, LIFE)
  const bytes = crypto.getRandomValues(new Uint8Array(BODY_BYTES + MAC_BYTES))
  new DataView(bytes.buffer).setUint32(0, expiresAt)
  bytes.set(new Uint8Array(await crypto.subtle.sign('HMAC', key, bytes.subarray(0, BODY_BYTES))), BODY_BYTES)
  return { challenge: encodeBase64url(bytes), expiresAt: rfc3339(expiresAt) }
}

/** When the challenge expires, which may be past; null where it was not made with this key. */
export async function challengeExpiry(key: CryptoKey, challenge: string): Promise<EpochSeconds | null> {
  const bytes: Bytes | null = decodeBase64url(challenge)
  if (bytes === null || bytes.length !== BODY_BYTES + MAC_BYTES) return null
  if (!(await crypto.subtle.verify('HMAC', key, bytes.subarray(BODY_BYTES), bytes.subarray(0, BODY_BYTES)))) return null
  return epochSeconds(new DataView(bytes.buffer).getUint32(0))
}
