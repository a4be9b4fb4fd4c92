// What a Kubernetes token says of itself, read without a key: for the expiry of our own token and for the log lines
// that help to find out why it was refused. Never for a decision about anybody else.

import { decodeBase64url } from '../../protocol/base64url.ts'
import { isObject, type JsonObject, readJson } from '../../protocol/strict-json.ts'
import { type Fields, told } from '../log.ts'

/** Exactly two dots, as the control plane tells the two kinds of token apart. */
export const isCompactJws = (token: string): boolean => token.split('.').length === 3

export function unverifiedClaims(token: string): JsonObject | null {
  const bytes = isCompactJws(token) ? decodeBase64url(token.split('.')[1] ?? '') : null
  const reading = bytes === null ? null : readJson(bytes)
  return reading?.ok === true && isObject(reading.value) ? reading.value : null
}

/** The claims that most refusals are about. */
export function describeToken(token: string): Fields {
  const claims = unverifiedClaims(token)
  if (claims === null) return {}
  const { iss, aud, sub, exp } = claims
  const audiences = (Array.isArray(aud) ? aud : [aud]).map((one) => told(one) ?? '').filter((one) => one !== '')
  return { iss: told(iss), aud: audiences, sub: told(sub), exp: typeof exp === 'number' ? exp : undefined }
}
