// Reads a compact JWS (RFC 7515 §7.1), unverified: to tell it from other text, for the expiry of our own token, and for the
// log. Never for a decision about anybody else.

import { decodeBase64url } from '../../protocol/bytes.ts'
import { isObject, type JsonObject, readJson } from '../../protocol/strict-json.ts'
import { isCompactJws } from '../../protocol/tokens.ts'
import { type Fields, sanitized } from '../environment/log.ts'

/** The claims of a compact JWS; null for any other text, such as a token of another product with two dots in it. */
export function unverifiedClaims(text: string): JsonObject | null {
  if (!isCompactJws(text)) return null
  const [header = '', payload = '', signature = ''] = text.split('.')
  const claims = objectOf(payload)
  const isSigned = typeof objectOf(header)?.alg === 'string' && (decodeBase64url(signature)?.length ?? 0) > 0
  return isSigned ? claims : null
}

function objectOf(part: string): JsonObject | null {
  const bytes = decodeBase64url(part)
  const reading = bytes === null ? null : readJson(bytes)
  return reading?.ok === true && isObject(reading.value) ? reading.value : null
}

/** The claims that most refusals are about, for the log line of one; none of a minted token. */
export function describeToken(token: string): Fields {
  const claims = unverifiedClaims(token)
  if (claims === null) return {}
  const { iss, aud, sub, exp } = claims
  const audiences = (Array.isArray(aud) ? aud : [aud]).map((one) => sanitized(one) ?? '').filter((one) => one !== '')
  return { iss: sanitized(iss), aud: audiences, sub: sanitized(sub), exp: typeof exp === 'number' ? exp : undefined }
}
