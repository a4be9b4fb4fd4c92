// Bounds on a request before it is parsed: scheme, media type, size.

import { readUpTo } from '../../protocol/bytes.ts'
import { ENROLL_BODY_BYTES } from '../../protocol/limits.ts'
import { type Outcome, refuse } from '../../protocol/refusals.ts'
import { ok } from '../../protocol/result.ts'
import { type Json, readJson } from '../../protocol/strict-json.ts'

export const HTTPS_ONLY = refuse('https_only', { detail: 'https only' })

/** The JSON body of a POST. */
export async function readJsonBody(request: Request): Promise<Outcome<Json>> {
  if (!isJson(request.headers.get('content-type'))) return refuse('content_type')
  const bytes = await readBytes(request, ENROLL_BODY_BYTES)
  if (!bytes.ok) return bytes
  const reading = readJson(bytes.value)
  return reading.ok ? ok(reading.value) : refuse('body_malformed', { detail: reading.error })
}

/** The body, at most `limit` bytes; reading stops there, whatever length was announced. */
export async function readBytes(request: Request, limit: number): Promise<Outcome<Uint8Array>> {
  const tooLarge = refuse('body_too_large', { detail: `the body is over ${limit} bytes` })
  if (Number(request.headers.get('content-length') ?? 0) > limit) return tooLarge
  const bytes = await readUpTo(request.body, limit)
  return bytes === null ? tooLarge : ok(bytes)
}

function isJson(contentType: string | null): boolean {
  const [type, ...parameters] = (contentType ?? '').split(';').map((part) => part.trim().toLowerCase())
  return (
    type === 'application/json' && parameters.every((p) => p === '' || p === 'charset=utf-8' || p === 'charset="utf-8"')
  )
}
