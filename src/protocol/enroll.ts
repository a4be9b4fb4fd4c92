// The shapes of the request and the answer of POST /api/enroll, for both sides. No I/O.

import * as v from 'valibot'
import { isPrintable } from './characters.ts'
import { INSTANCE_ID_CHARACTERS } from './limits.ts'
import { type Outcome, refuse } from './refusals.ts'
import { ok } from './result.ts'
import { type Fields, parseShape, text } from './shape.ts'
import { isObject, type Json, type JsonObject } from './strict-json.ts'

export const PROTOCOL_VERSION = 1

/** A text for the fleet that nothing depends on. `most`: its length in code points. */
export const label = (most: number) =>
  v.pipe(
    text,
    v.check((one) => [...one].length <= most && isPrintable(one), `at most ${most} printable characters`),
  )

export const instanceId = label(INSTANCE_ID_CHARACTERS)

const REQUEST = v.strictObject({
  version: v.literal(PROTOCOL_VERSION, 'the number 1'),
  attestation: v.custom<JsonObject>(isObject, 'an object'),
  /** PEM of a PKCS#10 request. */
  csr: text,
  challengeNonce: text,
  instanceId: v.optional(v.nullable(instanceId), null),
})

/** A request with the right types and field names. Every value is untrusted. */
export interface EnrollRequest extends Omit<v.InferOutput<typeof REQUEST>, 'attestation' | 'version'> {
  readonly attestation: AttestationObject
}

/** The evidence; its fields are not yet compared with those of the mode. */
export interface AttestationObject {
  readonly mode: string
  readonly fields: JsonObject
}

/** Parses types and field names alone. Every unknown field is refused. */
export function parseEnrollRequest(body: Json): Outcome<EnrollRequest> {
  const shaped = parseShape(REQUEST, body)
  if (!shaped.ok) return malformed(shaped.error)
  const { csr, challengeNonce, instanceId } = shaped.value
  const { mode, ...fields } = shaped.value.attestation
  if (typeof mode !== 'string') return malformed('attestation.mode must be a string')
  return ok({ attestation: { mode, fields }, csr, challengeNonce, instanceId })
}

/** Evidence of the shape `S`. */
export type Evidence<S extends Fields> = v.InferOutput<S>

/** Parses evidence by the shape of its mode. Every unknown field is refused. */
export function parseEvidence<S extends Fields>(shape: S, given: JsonObject): Outcome<Evidence<S>> {
  const shaped = parseShape(shape, given, 'attestation')
  return shaped.ok ? shaped : malformed(shaped.error)
}

const malformed = (detail: string) => refuse('body_malformed', { detail })

/** Times are in RFC 3339. Unknown fields, of a newer control plane, are ignored. */
export const ENROLL_ANSWER = v.object({
  version: v.literal(PROTOCOL_VERSION, 'the number 1'),
  /** PEM of the leaf. */
  certificate: text,
  /** PEM of intermediates; may be empty. */
  chain: text,
  /** PEM of roots. */
  trustBundle: text,
  spiffeId: text,
  tenant: text,
  runnerId: v.nullable(text),
  enrollmentId: text,
  notBefore: text,
  notAfter: text,
  serverTime: text,
})

export type EnrollAnswer = Readonly<v.InferOutput<typeof ENROLL_ANSWER>>
