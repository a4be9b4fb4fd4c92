// POST /api/enroll as both sides say it: the shape of the request and of the answer. No I/O.

import * as v from 'valibot'
import { isPrintable } from './characters.ts'
import { INSTANCE_ID_CHARACTERS } from './limits.ts'
import { type Outcome, refuse } from './refusals.ts'
import { ok } from './result.ts'
import { type Fields, parseShape, text } from './shape.ts'
import { isObject, type Json, type JsonObject } from './strict-json.ts'

export const PROTOCOL_VERSION = 1

/** A label of an instance, for the fleet; its length is in code points. */
export const instanceId = v.pipe(
  text,
  v.check(
    (label) => [...label].length <= INSTANCE_ID_CHARACTERS && isPrintable(label),
    `at most ${INSTANCE_ID_CHARACTERS} printable characters`,
  ),
)

const REQUEST = v.strictObject({
  version: v.literal(PROTOCOL_VERSION, 'the number 1'),
  attestation: v.custom<JsonObject>((value) => isObject(value as Json), 'an object'),
  /** PEM of a PKCS#10 request. */
  csr: text,
  challengeNonce: text,
  instanceId: v.optional(v.nullable(instanceId), null),
})

/** A request whose types and field names are right; every value in it is still untrusted. */
export interface EnrollRequest extends Omit<v.InferOutput<typeof REQUEST>, 'attestation' | 'version'> {
  readonly attestation: AttestationObject
}

/** The evidence, its fields not yet held against what the mode takes. */
export interface AttestationObject {
  readonly mode: string
  readonly fields: JsonObject
}

/** Shape only: types and field names, every unknown field refused by name. */
export function parseEnrollRequest(body: Json): Outcome<EnrollRequest> {
  const shaped = parseShape(REQUEST, body)
  if (!shaped.ok) return malformed(shaped.error)
  const { csr, challengeNonce, instanceId } = shaped.value
  const { mode, ...fields } = shaped.value.attestation
  if (typeof mode !== 'string') return malformed('attestation.mode must be a string')
  return ok({ attestation: { mode, fields }, csr, challengeNonce, instanceId })
}

/** Evidence of a mode whose fields are all strings, or objects of strings. */
export type Evidence<S extends Fields> = v.InferOutput<S>

/** Holds evidence against the fields that its mode takes: all of them, none else. */
export function parseEvidence<S extends Fields>(shape: S, given: JsonObject): Outcome<Evidence<S>> {
  const shaped = parseShape(shape, given, 'attestation')
  return shaped.ok ? shaped : malformed(shaped.error)
}

const malformed = (detail: string) => refuse('body_malformed', { detail })

/** What a runner gets. Times are RFC 3339. Unknown fields are a newer control plane's, and not looked at. */
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
