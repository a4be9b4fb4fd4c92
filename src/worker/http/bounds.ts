// Bounds on a request before it is parsed: scheme, media type, size.

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
export async function readBytes({ headers, body }: Request, limit: number): Promise<Outcome<Uint8Array>> {
  const tooLarge = refuse('body_too_large', { detail: `the body is over ${limit} bytes` })
  const announced = Number(headers.get('content-length') ?? limit)
  if (announced > limit) return tooLarge
  if (body === null) return ok(new Uint8Array(0))
  // One read: an iteration over the stream costs as much as all else of a refused request. It asks for one octet more
  // than there may be.
  const asked = (announced >= 0 ? announced : limit) + 1
  const reader = body.getReader({ mode: 'byob' })
  // It rejects where the client goes away, which is no bug of ours to log.
  const read = await reader.readAtLeast(asked, new Uint8Array(asked)).catch(() => null)
  if (read === null) return refuse('body_malformed', { detail: 'the body was cut off' })
  const { value = new Uint8Array(0) } = read
  if (value.length < asked) return ok(value)
  await reader.cancel()
  return tooLarge
}

function isJson(contentType: string | null): boolean {
  const [type, ...parameters] = (contentType ?? '').split(';').map((part) => part.trim().toLowerCase())
  return (
    type === 'application/json' && parameters.every((p) => p === '' || p === 'charset=utf-8' || p === 'charset="utf-8"')
  )
}
