// Parses the answer of STS: a caller identity, a refusal with its cause for the operator, or an outage.

import { decodeUtf8, readUpTo } from '../../../protocol/bytes.ts'
import { everyCharacter, isLetter } from '../../../protocol/characters.ts'
import { STS_BODY_BYTES } from '../../../protocol/limits.ts'
import { type Outcome, refuse } from '../../../protocol/refusals.ts'
import { ok } from '../../../protocol/result.ts'
import { readXml } from './strict-xml.ts'

/** The fields of the answer; arn.ts checks that they agree. */
export interface CallerIdentity {
  readonly arn: string
  readonly account: string
  readonly userId: string
}

const NAMESPACE = 'https://sts.amazonaws.com/doc/2011-06-15/'

/** Throws where the connection breaks while the body is read. */
export async function readAnswer(response: Response): Promise<Outcome<CallerIdentity>> {
  const { status } = response
  const bytes = await readUpTo(response.body, STS_BODY_BYTES)
  if (bytes === null || status === 429 || (status >= 300 && status < 400) || status >= 500) {
    return refuse('sts_unavailable', { claimed: { status: String(status) } })
  }
  if (status >= 400) return refuseError(status, new TextDecoder().decode(bytes))
  const text = status === 200 && isXml(response) ? decodeUtf8(bytes) : null
  return text === null ? refuse('sts_answer') : readIdentity(text)
}

function readIdentity(text: string): Outcome<CallerIdentity> {
  const reading = readXml(text, 'GetCallerIdentityResponse', NAMESPACE)
  if (!reading.ok) return refuse(reading.error === 'truncated' ? 'sts_unavailable' : 'sts_answer')
  const { children } = reading.value
  const results = children.filter(({ name }) => name === 'GetCallerIdentityResult')
  const others = children.filter(({ name }) => name !== 'GetCallerIdentityResult')
  const [result] = results
  if (result === undefined || results.length > 1) return refuse('sts_answer')
  if (others.length > 1 || others.some(({ name }) => name !== 'ResponseMetadata')) return refuse('sts_answer')

  const fields = new Map(result.children.map((field) => [field.name, field]))
  const [arn, account, userId] = ['Arn', 'Account', 'UserId'].map((name) => fields.get(name))
  if (arn === undefined || account === undefined || userId === undefined) return refuse('sts_answer')
  // With three different names found, three children mean that each field is there once and nothing else is.
  if (result.children.length !== 3 || result.children.some((field) => field.children.length > 0)) {
    return refuse('sts_answer')
  }
  return ok({ arn: arn.text, account: account.text, userId: userId.text })
}

/**
 * The error code selects the advice for the operator, and whether a retry can help. It decides nothing else, so it is
 * searched for in any text. The event gets the code alone.
 */
function refuseError(status: number, text: string): Outcome<never> {
  const code = between(text, '<Code>', '</Code>')
  const claimed = { status: String(status), stsError: isCode(code) ? code : 'none' }
  switch (code) {
    case 'ExpiredToken':
    case 'ExpiredTokenException':
      return refuse('sts_expired', { claimed })
    case 'RequestExpired':
      return refuse('sts_clock', { claimed })
    case 'SignatureDoesNotMatch': {
      // STS has one code for three causes.
      const message = between(text, '<Message>', '</Message>')
      if (message.startsWith('Signature expired') || message.startsWith('Signature not yet current')) {
        return refuse('sts_clock', { claimed })
      }
      return refuse(message.startsWith('Credential should be scoped') ? 'aws_scope' : 'sts_signature', { claimed })
    }
    case 'InvalidClientTokenId':
    case 'UnrecognizedClientException':
      return refuse('sts_key_unknown', { claimed })
    case 'Throttling':
    case 'ThrottlingException':
    case 'RequestLimitExceeded':
      return refuse('sts_unavailable', { claimed })
    default:
      return refuse('sts_refused', { claimed })
  }
}

function between(text: string, before: string, after: string): string {
  const start = text.indexOf(before) + before.length
  const end = text.indexOf(after, start)
  return start < before.length || end === -1 ? '' : text.slice(start, end)
}

const isCode = (text: string): boolean =>
  text !== '' && text.length <= 64 && everyCharacter(text, (c) => isLetter(c) || c === '.')

/** A response without a media type counts as XML. */
function isXml(response: Response): boolean {
  const [type = ''] = (response.headers.get('content-type') ?? 'text/xml').split(';', 1)
  return ['text/xml', 'application/xml'].includes(type.trim().toLowerCase())
}
