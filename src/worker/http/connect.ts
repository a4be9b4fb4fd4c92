// The Connect door as HTTP: the Connect protocol (unary, JSON and binary) by @connectrpc/connect, bounded before it
// parses anything, and refusals as Connect errors.

import { Code, ConnectError, createConnectRouter, createContextKey, createContextValues } from '@connectrpc/connect'
import { type UniversalHandler, universalServerResponseToFetch } from '@connectrpc/connect/protocol'
import { RunnerService } from '../../protocol/gen/runner/v1/runner_pb.ts'
import { ENROLL_BODY_BYTES } from '../../protocol/limits.ts'
import { REASONS } from '../../protocol/reasons.ts'
import { type Outcome, problemOf, type Refusal, refuse } from '../../protocol/refusals.ts'
import { ok } from '../../protocol/result.ts'
import { toEpochSeconds } from '../../protocol/time.ts'
import type { Dependencies } from '../enrollment/dependencies.ts'
import type { Caller } from '../enrollment/event.ts'
import { nameRunner } from '../enrollment/name-runner.ts'
import { readBytes } from './bounds.ts'
import { headersOf } from './render.ts'

/** One request on its way through the handler. */
interface Call {
  readonly caller: Caller
  /** A no that was said before the message was looked at. */
  readonly refusal: Refusal | null
  /** What the message asks for → its answer. */
  readonly answer: (runnerId: string) => Promise<Outcome<string>>
}

const CALL = createContextKey<Call | null>(null)

const router = createConnectRouter({
  grpc: false,
  grpcWeb: false,
  readMaxBytes: ENROLL_BODY_BYTES,
  requestGate: ({ values }) => {
    const { caller, refusal } = callIn(values.get(CALL))
    if (refusal !== null) throw errorOf(refusal, caller)
  },
}).rpc(RunnerService.method.enroll, async ({ runnerId }, { values }) => {
  const { caller, answer } = callIn(values.get(CALL))
  const named = await answer(runnerId)
  if (!named.ok) throw errorOf(named.error, caller)
  return { runnerId: named.value }
})

const [handler] = router.handlers as [UniversalHandler]

export async function serveConnect(
  request: Request,
  deps: Dependencies,
  caller: Caller,
  isPlain: boolean,
): Promise<Response> {
  const authorization = request.headers.get('authorization')
  const body = isPlain ? refuse('https_only') : await readBytes(request, ENROLL_BODY_BYTES)
  let reached = false
  if (body.ok) {
    const response = await handle(request, body.value, {
      caller,
      refusal: null,
      answer: (runnerId) => {
        reached = true
        return nameRunner(deps, caller, authorization, ok(runnerId))
      },
    })
    if (reached) return response
    // The media type is not Connect's, or the message is compressed: the protocol has answers of its own for these.
    if (response.status === 415 || response.status === 501) {
      await nameRunner(deps, caller, authorization, refuse('content_type'))
      return response
    }
  }
  const told = await nameRunner(deps, caller, authorization, body.ok ? refuse('body_malformed') : body)
  const refusal = told.ok ? null : told.error
  return handle(request, new Uint8Array(0), { caller, refusal, answer: async () => told })
}

async function handle(request: Request, body: Uint8Array, call: Call): Promise<Response> {
  const answered = await handler({
    httpVersion: '',
    method: request.method,
    url: request.url,
    header: request.headers,
    body: once(body),
    signal: request.signal,
    contextValues: createContextValues().set(CALL, call),
  })
  const response = universalServerResponseToFetch(answered)
  for (const [name, value] of Object.entries(headersOf(call.caller))) response.headers.set(name, value)
  return response
}

async function* once(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes
}

function callIn(call: Call | null): Call {
  if (call === null) throw new Error('a request without a call')
  return call
}

function errorOf(refusal: Refusal, caller: Caller): ConnectError {
  const { problem, retryAfter } = problemOf(refusal, caller.requestId, toEpochSeconds(caller.at))
  // Told to whoever proved another ID, so it gives nothing away.
  const detail =
    refusal.reason === 'runner_id_mismatch' ? 'runner_id is not the one that the token proves' : problem.detail
  return new ConnectError(detail, codeOf(refusal), retryAfter === null ? {} : { 'retry-after': String(retryAfter) })
}

/** A failed proof is told from everything else, and no failed proof from another. */
function codeOf({ reason }: Refusal): Code {
  if (reason === 'runner_id_mismatch') return Code.PermissionDenied
  const { code } = REASONS[reason]
  switch (code) {
    case 'attestation_invalid':
    case 'renewal_window_passed':
    case 'reattestation_required':
      return Code.Unauthenticated
    case 'banned':
      return Code.PermissionDenied
    case 'rate_limited':
      return Code.ResourceExhausted
    case 'keys_unavailable':
    case 'upstream_unavailable':
    case 'not_configured':
      return Code.Unavailable
    case 'request_malformed':
    case 'request_too_large':
    case 'media_type_unsupported':
    case 'csr_invalid':
    case 'nonce_mismatch':
      return Code.InvalidArgument
    case 'not_found':
      return Code.NotFound
    case 'internal':
      return Code.Internal
  }
}
