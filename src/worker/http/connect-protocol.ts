// Speaks the Connect protocol (unary, JSON and binary) with @connectrpc/connect. Imported at the first call to the
// Connect door: these libraries are a third of the Worker's code and take more than 30 ms to start.

import { Code, ConnectError, createContextKey, createContextValues, createMethodImplSpec } from '@connectrpc/connect'
import { createUniversalMethodHandler, universalServerResponseToFetch } from '@connectrpc/connect/protocol'
import { createHandlerFactory } from '@connectrpc/connect/protocol-connect'
import { RunnerService } from '../../protocol/gen/runner/v1/runner_pb.ts'
import { ENROLL_BODY_BYTES } from '../../protocol/limits.ts'
import type { Result } from '../../protocol/result.ts'
import type { Seconds } from '../../protocol/time.ts'

/** A refusal as a Connect error. */
export interface ConnectRefusal {
  readonly code: keyof typeof Code
  readonly message: string
  readonly retryAfter: Seconds | null
}

/** One request on its way through the library. */
export interface Call {
  /** Refuses the request before its message is read. */
  readonly refusal: ConnectRefusal | null
  /** From the runner ID in the message to the runner ID of the answer. */
  readonly answer: (runnerId: string) => Promise<Result<string, ConnectRefusal>>
}

const CALL = createContextKey<Call | null>(null)

// As `createConnectRouter` does it, but without gRPC and gRPC-web.
const protocol = createHandlerFactory({
  readMaxBytes: ENROLL_BODY_BYTES,
  requestGate: ({ values }) => {
    const { refusal } = callIn(values.get(CALL))
    if (refusal !== null) throw errorOf(refusal)
  },
})
const enroll = createMethodImplSpec(RunnerService.method.enroll, async ({ runnerId }, { values }) => {
  const answered = await callIn(values.get(CALL)).answer(runnerId)
  if (!answered.ok) throw errorOf(answered.error)
  return { runnerId: answered.value }
})
const handler = createUniversalMethodHandler(enroll, [protocol])

/** The response to a request with this body. `answer` is not called where the message cannot be read. */
export async function respond(request: Request, body: Uint8Array, call: Call): Promise<Response> {
  const answered = await handler({
    httpVersion: '',
    method: request.method,
    url: request.url,
    header: request.headers,
    body: once(body),
    signal: request.signal,
    contextValues: createContextValues().set(CALL, call),
  })
  return universalServerResponseToFetch(answered)
}

async function* once(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes
}

function callIn(call: Call | null): Call {
  if (call === null) throw new Error('a request without a call')
  return call
}

const errorOf = ({ code, message, retryAfter }: ConnectRefusal): ConnectError =>
  new ConnectError(message, Code[code], retryAfter === null ? {} : { 'retry-after': String(retryAfter) })
