// POST /api/enroll as both sides say it: the shape of the request and of the answer. No I/O.

import { isLabel, quote } from './labels.ts'
import { INSTANCE_ID_CHARACTERS } from './limits.ts'
import { type Outcome, refuse } from './refusals.ts'
import { ok } from './result.ts'
import { isObject, type Json, type JsonObject } from './strict-json.ts'

export const PROTOCOL_VERSION = 1

/** A request whose types and field names are right; every value in it is still untrusted. */
export interface EnrollRequest {
  readonly attestation: AttestationObject
  /** PEM of a PKCS#10 request. */
  readonly csr: string
  readonly challengeNonce: string
  /** A label for the fleet, trusted for nothing. */
  readonly instanceId: string | null
}

/** The evidence, its fields not yet held against what the mode takes. */
export interface AttestationObject {
  readonly mode: string
  readonly fields: JsonObject
}

/** What a runner gets. Times are RFC 3339. */
export interface EnrollAnswer {
  readonly version: 1
  readonly certificate: string
  readonly chain: string
  readonly trustBundle: string
  readonly spiffeId: string
  readonly tenant: string
  readonly runnerId: string | null
  readonly enrollmentId: string
  readonly notBefore: string
  readonly notAfter: string
  readonly serverTime: string
}

const FIELDS = ['version', 'attestation', 'csr', 'challengeNonce', 'instanceId']

/** Shape only: types and field names, every unknown field refused by name. */
export function parseEnrollRequest(body: Json): Outcome<EnrollRequest> {
  if (!isObject(body)) return malformed('the body must be a JSON object')
  const unknown = Object.keys(body).find((name) => !FIELDS.includes(name))
  if (unknown !== undefined) return malformed(`unknown field ${quote(unknown, 40)}`)
  const { version, attestation, csr, challengeNonce, instanceId = null } = body
  if (version !== PROTOCOL_VERSION) return malformed('version must be the number 1')
  if (!isObject(attestation)) return malformed('attestation must be an object')
  const { mode, ...fields } = attestation
  if (typeof mode !== 'string') return malformed('attestation.mode must be a string')
  if (typeof csr !== 'string') return malformed('csr must be a string')
  if (typeof challengeNonce !== 'string') return malformed('challengeNonce must be a string')
  if (instanceId !== null && typeof instanceId !== 'string') return malformed('instanceId must be a string')
  if (instanceId !== null && ([...instanceId].length > INSTANCE_ID_CHARACTERS || !isLabel(instanceId))) {
    return malformed(`instanceId must have at most ${INSTANCE_ID_CHARACTERS} printable characters`)
  }
  return ok({ attestation: { mode, fields }, csr, challengeNonce, instanceId })
}

/** The type that a mode's evidence has in one field. */
export type FieldType = 'string' | 'strings'
export type EvidenceFields = Readonly<Record<string, FieldType>>
/** Evidence of the right shape: `strings` is an object whose values are strings. */
export type Evidence<F extends EvidenceFields> = {
  readonly [name in keyof F]: F[name] extends 'string' ? string : Readonly<Record<string, string>>
}

/** Holds evidence against the fields that its mode takes: all of them, none else. */
export function parseEvidence<F extends EvidenceFields>(fields: F, given: JsonObject): Outcome<Evidence<F>> {
  const unknown = Object.keys(given).find((name) => !Object.hasOwn(fields, name))
  if (unknown !== undefined) return malformed(`unknown field attestation.${quote(unknown, 40)}`)
  for (const [name, type] of Object.entries(fields)) {
    const value = Object.hasOwn(given, name) ? given[name] : undefined
    if (type === 'string' && typeof value !== 'string') return malformed(`attestation.${name} must be a string`)
    if (type === 'strings') {
      if (!isObject(value)) return malformed(`attestation.${name} must be an object`)
      const odd = Object.entries(value).find(([, text]) => typeof text !== 'string')
      if (odd !== undefined) return malformed(`attestation.${name}.${quote(odd[0], 40)} must be a string`)
    }
  }
  // The loop has held every field against its type.
  return ok(given as unknown as Evidence<F>)
}

const malformed = (detail: string) => refuse('body_malformed', { detail })
