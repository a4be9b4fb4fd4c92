// Parses the Authorization header of SigV4. Pure.

import { everyCharacter, isDigit, isHexDigit, isLetterOrDigit, isLowerOrDigit } from '../../../protocol/characters.ts'

export interface Authorization {
  readonly accessKeyId: string
  readonly scope: { readonly date: string; readonly region: string; readonly service: string }
  /** Lower case, in order, none twice. */
  readonly signedHeaders: readonly string[]
}

/**
 * `AWS4-HMAC-SHA256 Credential=<key>/<date>/<region>/<service>/aws4_request, SignedHeaders=<a;b>, Signature=<hex>`:
 * in this order, as every SDK writes it, separated by `,` or `, `. Null for anything else, SigV4A included.
 */
export function parseAuthorization(header: string): Authorization | null {
  const algorithm = 'AWS4-HMAC-SHA256 '
  if (!header.startsWith(algorithm)) return null
  const [first = '', second = '', third = '', ...more] = header.slice(algorithm.length).split(',', 4)
  const credential = after('Credential=', first)
  const names = after('SignedHeaders=', afterSpace(second))
  const signature = after('Signature=', afterSpace(third))
  if (credential === null || names === null || signature === null || more.length > 0) return null
  if (signature.length !== 64 || !everyCharacter(signature, isHexDigit)) return null

  const [accessKeyId = '', date = '', region = '', service = '', terminator, ...rest] = credential.split('/', 6)
  if (terminator !== 'aws4_request' || rest.length > 0) return null
  if (accessKeyId === '' || accessKeyId.length > 128 || !everyCharacter(accessKeyId, isKeyIdCharacter)) return null
  if (date.length !== 8 || !everyCharacter(date, isDigit)) return null
  if (!everyCharacter(region, isScopeCharacter) || !everyCharacter(service, isScopeCharacter)) return null

  const signedHeaders = names.split(';')
  const inOrder = signedHeaders.every((name, i) => name > (signedHeaders[i - 1] ?? ''))
  if (!inOrder || !signedHeaders.every((name) => everyCharacter(name, isHeaderCharacter))) return null
  return { accessKeyId, scope: { date, region, service }, signedHeaders }
}

const after = (key: string, text: string): string | null => (text.startsWith(key) ? text.slice(key.length) : null)
const afterSpace = (text: string): string => (text.startsWith(' ') ? text.slice(1) : text)

const isScopeCharacter = (c: string): boolean => isLowerOrDigit(c) || c === '-'
const isHeaderCharacter = (c: string): boolean => isLowerOrDigit(c) || c === '-' || c === '_'
/** AccessKey in the IAM API reference: `[\w]+`, up to 128. */
const isKeyIdCharacter = (c: string): boolean => isLetterOrDigit(c) || c === '_'
