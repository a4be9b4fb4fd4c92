// Serves the Connect door: reads a request within bounds, and turns refusals into Connect errors.

import { ENROLL_BODY_BYTES } from '../../protocol/limits.ts'
import { REASONS } from '../../protocol/reasons.ts'
import { type Outcome, problemOf, type Refusal, refuse } from '../../protocol/refusals.ts'
import { err, ok, type Result } from '../../protocol/result.ts'
import { toEpochSeconds } from '../../protocol/time.ts'
import type { Dependencies } from '../enrollment/dependencies.ts'
import type { Caller } from '../enrollment/event.ts'
import { nameRunner } from '../enrollment/name-runner.ts'
import { HTTPS_ONLY, readBytes } from './bounds.ts'
import type { Call, ConnectRefusal } from './connect-protocol.ts'
import { headersOf } from './render.ts'

export async function serveConnect(
  request: Request,
  deps: Dependencies,
  caller: Caller,
  isPlain: boolean,
): Promise<Response> {
  const authorization = request.headers.get('authorization')
  const body = isPlain ? HTTPS_ONLY : await readBytes(request, ENROLL_BODY_BYTES)
  let reached = false
  if (body.ok) {
    const response = await respondTo(request, caller, body.value, {
      refusal: null,
      answer: async (runnerId) => {
        reached = true
        return connectOutcome(await nameRunner(deps, caller, authorization, ok(runnerId)), caller)
      },
    })
    if (reached) return response
    // A media type that is not Connect's, or a compressed message: the library's own answer is kept.
    if (response.status === 415 || response.status === 501) {
      await nameRunner(deps, caller, authorization, refuse('content_type'))
      return response
    }
  }
  const refused = await nameRunner(deps, caller, authorization, body.ok ? refuse('body_malformed') : body)
  const outcome = connectOutcome(refused, caller)
  const refusal = outcome.ok ? null : outcome.error
  return respondTo(request, caller, new Uint8Array(0), { refusal, answer: async () => outcome })
}

async function respondTo(request: Request, caller: Caller, body: Uint8Array, call: Call): Promise<Response> {
  const { respond } = await import('./connect-protocol.ts')
  const response = await respond(request, body, call)
  for (const [name, value] of Object.entries(headersOf(caller))) response.headers.set(name, value)
  return response
}

function connectOutcome(outcome: Outcome<string>, caller: Caller): Result<string, ConnectRefusal> {
  if (outcome.ok) return outcome
  const { problem, retryAfter } = problemOf(outcome.error, caller.requestId, toEpochSeconds(caller.at))
  // The caller has proven its own runner ID, so this discloses nothing.
  const message =
    outcome.error.reason === 'runner_id_mismatch' ? 'runner_id is not the one that the token proves' : problem.detail
  return err({ code: codeOf(outcome.error), message, retryAfter })
}

/** All failed proofs have one code, which nothing else has. */
function codeOf({ reason }: Refusal): ConnectRefusal['code'] {
  if (reason === 'runner_id_mismatch') return 'PermissionDenied'
  const code = REASONS[reason]
  switch (code) {
    case 'attestation_invalid':
    case 'renewal_window_passed':
    case 'reattestation_required':
      return 'Unauthenticated'
    case 'banned':
      return 'PermissionDenied'
    case 'rate_limited':
      return 'ResourceExhausted'
    case 'keys_unavailable':
    case 'upstream_unavailable':
    case 'not_configured':
      return 'Unavailable'
    case 'request_malformed':
    case 'request_too_large':
    case 'media_type_unsupported':
    case 'csr_invalid':
    case 'nonce_mismatch':
      return 'InvalidArgument'
    case 'not_found':
    case 'method_not_allowed':
      return 'NotFound'
    case 'internal':
      return 'Internal'
  }
}
