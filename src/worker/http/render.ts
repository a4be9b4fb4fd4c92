// Renders HTTP responses: JSON, text, problem documents and sockets, each with the request id.

import { problemOf, type Refusal } from '../../protocol/refusals.ts'
import { toEpochSeconds } from '../../protocol/time.ts'
import type { Caller } from '../enrollment/event.ts'

/** No response may be cached, or read as another media type. */
export const headersOf = (caller: Caller): Record<string, string> => ({
  'cache-control': 'no-store',
  'x-content-type-options': 'nosniff',
  'x-request-id': caller.requestId,
})

export const renderJson = (caller: Caller, value: unknown, status = 200): Response =>
  new Response(JSON.stringify(value), { status, headers: { ...headersOf(caller), 'content-type': 'application/json' } })

export const renderText = (caller: Caller, type: string, text: string): Response =>
  new Response(text, { headers: { ...headersOf(caller), 'content-type': type } })

export const renderSocket = (caller: Caller, webSocket: WebSocket): Response =>
  new Response(null, { status: 101, webSocket, headers: headersOf(caller) })

export function renderRefusal(caller: Caller, refusal: Refusal): Response {
  const { problem, retryAfter } = problemOf(refusal, caller.requestId, toEpochSeconds(caller.at))
  return new Response(JSON.stringify(problem), {
    status: problem.status,
    headers: {
      ...headersOf(caller),
      'content-type': 'application/problem+json',
      ...(retryAfter === null ? {} : { 'retry-after': String(retryAfter) }),
    },
  })
}
