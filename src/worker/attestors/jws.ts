// Parses a compact JWS (RFC 7515 §7.1) strictly. The result is unverified.

import { decodeBase64url } from '../../protocol/bytes.ts'
import { JWS_BYTES } from '../../protocol/limits.ts'
import { type Outcome, refuse } from '../../protocol/refusals.ts'
import { ok } from '../../protocol/result.ts'
import { isObject, type Json, type JsonObject, readJson } from '../../protocol/strict-json.ts'
import { isCompactJws } from '../../protocol/tokens.ts'

/** A JWS with an accepted algorithm and no critical extension. */
export interface Jws {
  readonly alg: 'RS256' | 'ES256'
  readonly kid: Json | undefined
  readonly untrustedClaims: JsonObject
}

/** Checks the length first, since splitting a token of a million dots is expensive (CVE-2025-27144). */
export function parseJws(token: string): Outcome<Jws> {
  if (token.length > JWS_BYTES || !isCompactJws(token)) return refuse('jws_malformed')
  const [header, claims, signature] = token.split('.').map(decodeBase64url)
  if (!header || !claims || !signature) return refuse('jws_malformed')
  const [head, body] = [readJson(header), readJson(claims)]
  if (!head.ok || !body.ok || !isObject(head.value) || !isObject(body.value)) return refuse('jws_malformed')
  const { alg, kid } = head.value
  if (alg !== 'RS256' && alg !== 'ES256') return refuse('jws_algorithm')
  // RFC 7515 §4.1.11: an unknown critical extension must be refused, and none is known here.
  if (Object.hasOwn(head.value, 'crit') || Object.hasOwn(head.value, 'b64')) return refuse('jws_header')
  return ok({ alg, kid, untrustedClaims: body.value })
}
