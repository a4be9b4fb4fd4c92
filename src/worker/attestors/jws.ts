// A compact JWS (RFC 7515 §7.1), taken apart strictly. What comes out is unverified.

import { decodeBase64url } from '../../protocol/bytes.ts'
import { JWS_BYTES } from '../../protocol/limits.ts'
import { type Outcome, refuse } from '../../protocol/refusals.ts'
import { ok } from '../../protocol/result.ts'
import { isObject, type Json, type JsonObject, readJson } from '../../protocol/strict-json.ts'
import { isCompactJws } from '../../protocol/tokens.ts'

/** A JWS that asks for nothing that is never honoured. */
export interface Jws {
  readonly alg: 'RS256' | 'ES256'
  readonly kid: Json | undefined
  readonly untrustedClaims: JsonObject
}

/** The length comes first: splitting a token of a million dots is work (CVE-2025-27144). */
export function parseJws(token: string): Outcome<Jws> {
  if (token.length > JWS_BYTES || !isCompactJws(token)) return refuse('jws_malformed')
  const [header, claims, signature] = token.split('.').map(decodeBase64url)
  if (!header || !claims || !signature) return refuse('jws_malformed')
  const [head, body] = [readJson(header), readJson(claims)]
  if (!head.ok || !body.ok || !isObject(head.value) || !isObject(body.value)) return refuse('jws_malformed')
  const { alg, kid } = head.value
  if (alg !== 'RS256' && alg !== 'ES256') return refuse('jws_algorithm')
  // RFC 7515 §4.1.11: whoever does not know an extension that is marked critical must refuse. We know none.
  if (Object.hasOwn(head.value, 'crit') || Object.hasOwn(head.value, 'b64')) return refuse('jws_header')
  return ok({ alg, kid, untrustedClaims: body.value })
}
