// Checks the headers of a GetCallerIdentity request signed with SigV4. Only signed headers are kept, and only kinds that
// cannot change the meaning of the request are accepted. Pure.

import { everyCharacter, isLetterOrDigit } from '../../../protocol/characters.ts'
import { AWS_DATE_LEEWAY } from '../../../protocol/limits.ts'
import { type Outcome, refuse } from '../../../protocol/refusals.ts'
import { ok } from '../../../protocol/result.ts'
import { type EpochSeconds, epochMilliseconds, toEpochSeconds } from '../../../protocol/time.ts'
import { parseAuthorization } from './authorization.ts'

const NONCE_HEADER = 'x-muster-nonce'

/** What the signed request must say. */
export interface Expected {
  readonly region: string
  readonly host: string
  readonly bodyLength: number
  readonly nonce: string
  readonly now: EpochSeconds
}

export interface SignedRequest {
  readonly accessKeyId: string
  /** The value of `Authorization`. */
  readonly authorization: string
  /** Every signed header by its lower-case name. */
  readonly signed: ReadonlyMap<string, string>
}

export function appraiseHeaders(headers: Readonly<Record<string, string>>, expected: Expected): Outcome<SignedRequest> {
  const sent = foldHeaders(headers)
  if (!sent.ok) return sent

  const authorization = sent.value.get('authorization')
  const parts = authorization === undefined ? null : parseAuthorization(authorization)
  if (authorization === undefined || parts === null) return refuse('aws_authorization')
  const { accessKeyId, scope, signedHeaders } = parts

  const { region } = expected
  if (scope.region !== region || scope.service !== 'sts') {
    return refuse('aws_scope', { claimed: { region, scope: `${brief(scope.region)}/${brief(scope.service)}` } })
  }

  const signed = new Map<string, string>()
  for (const name of signedHeaders) {
    const value = sent.value.get(name)
    if (!isSignable(name) || value === undefined || !everyCharacter(value, isVisible)) return badHeader(name)
    signed.set(name, value)
  }
  if (signed.get('host') !== expected.host) return badHeader('host')
  if (sent.value.has('x-amz-security-token') && !signed.has('x-amz-security-token')) {
    return badHeader('x-amz-security-token')
  }
  const contentType = signed.get('content-type')
  if (contentType !== undefined && !isForm(contentType)) return badHeader('content-type')
  const contentLength = signed.get('content-length')
  if (contentLength !== undefined && contentLength !== String(expected.bodyLength)) return badHeader('content-length')
  if (signed.get(NONCE_HEADER) !== expected.nonce) return refuse('aws_nonce')

  const date = signed.get('x-amz-date') ?? ''
  const signedAt = parseAmzDate(date)
  if (signedAt === null) return badHeader('x-amz-date')
  if (Math.abs(expected.now - signedAt) > AWS_DATE_LEEWAY) return refuse('aws_clock', { claimed: { date } })
  if (!date.startsWith(scope.date)) return refuse('aws_scope', { claimed: { date, scope: scope.date } })

  return ok({ accessKeyId, authorization, signed })
}

const badHeader = (header: string) => refuse('aws_headers', { claimed: { header: brief(header) } })

/** Long enough for any real name, too short for evidence to get into an event. */
export const brief = (name: string): string => name.slice(0, 24)

/**
 * By lower-case name. Two spellings of one name are refused, signed or not, since readers could take different ones
 * (CVE-2022-2385). Names must be ASCII, where lower case is unambiguous.
 */
function foldHeaders(headers: Readonly<Record<string, string>>): Outcome<Map<string, string>> {
  const folded = new Map<string, string>()
  for (const [name, value] of Object.entries(headers)) {
    if (name === '' || !everyCharacter(name, isTokenCharacter)) return badHeader(name)
    const lower = name.toLowerCase()
    if (folded.has(lower) || !everyCharacter(value, isNoControl)) return badHeader(lower)
    folded.set(lower, value)
  }
  return ok(folded)
}

/**
 * Headers that SDKs sign and that this runtime sends unchanged. `x-amz-target` could select another action in AWS's
 * JSON protocols, and `accept` another format of the answer (CVE-2020-16250).
 */
const isSignable = (name: string): boolean =>
  name === 'host' ||
  name === 'content-type' ||
  name === 'content-length' ||
  name === 'user-agent' ||
  name === NONCE_HEADER ||
  (name.startsWith('x-amz-') && name !== 'x-amz-target') ||
  name.startsWith('amz-sdk-')

/** The media type of the body; SDKs write it in different ways. */
function isForm(contentType: string): boolean {
  const [type, charset, ...rest] = contentType.split(';', 3).map((part) => part.trim().toLowerCase())
  return (
    type === 'application/x-www-form-urlencoded' &&
    (charset === undefined || charset === 'charset=utf-8') &&
    !rest.length
  )
}

/** `YYYYMMDDTHHMMSSZ` and a time that exists, or null. */
function parseAmzDate(text: string): EpochSeconds | null {
  if (text.length !== 16) return null
  const part = (from: number, to: number): string => text.slice(from, to)
  const extended = `${part(0, 4)}-${part(4, 6)}-${part(6, 11)}:${part(11, 13)}:${part(13, 15)}.000Z`
  const time = Date.parse(extended)
  // Date.parse accepts other forms and turns 30 February into March, so the text must come back the same.
  if (Number.isNaN(time) || new Date(time).toISOString() !== extended || text[15] !== 'Z') return null
  return toEpochSeconds(epochMilliseconds(time))
}

/** RFC 9110 §5.6.2. */
const isTokenCharacter = (c: string): boolean => isLetterOrDigit(c) || "!#$%&'*+-.^_`|~".includes(c)

const isNoControl = (c: string): boolean => c >= ' ' && (c < '\u007f' || c > '\u009f')
const isVisible = (c: string): boolean => c >= ' ' && c <= '~'
