// The forms of bearer tokens: those minted here, with the runner IDs they may be minted for, and compact JWSs. No I/O.

import { encodeBase64url, sha256Hex, utf8 } from './bytes.ts'
import { everyCharacter, isBase64url } from './characters.ts'

export type TokenKind = 'bootstrap' | 'runner'

const PREFIXES: Record<TokenKind, string> = { bootstrap: 'muster_bt_', runner: 'muster_rt_' }
const SECRET_BYTES = 32
const SECRET_CHARACTERS = 43

/** A fresh token: its prefix, then 32 random bytes in base64url. Printed once; only its `hashToken` is stored. */
export const mintToken = (kind: TokenKind): string =>
  PREFIXES[kind] + encodeBase64url(crypto.getRandomValues(new Uint8Array(SECRET_BYTES)))

/** The kind that the prefix names, where only characters of a token follow; it may be cut. Null for any other text. */
export function namedKind(text: string): TokenKind | null {
  const kind = (['bootstrap', 'runner'] as const).find((k) => text.startsWith(PREFIXES[k]))
  if (kind === undefined) return null
  const secret = text.slice(PREFIXES[kind].length)
  return secret !== '' && everyCharacter(secret, isBase64url) ? kind : null
}

/** The kind that the prefix names, or null where the text does not have the form of a minted token. */
export function kindOfToken(token: string): TokenKind | null {
  const kind = namedKind(token)
  return kind !== null && token.length === PREFIXES[kind].length + SECRET_CHARACTERS ? kind : null
}

/** The text with the secret of every minted token left out, whole or cut: for a line that quotes what somebody wrote. */
export function withoutSecrets(text: string): string {
  let kept = ''
  for (let i = 0; i < text.length; ) {
    const prefix = Object.values(PREFIXES).find((known) => text.startsWith(known, i))
    const next = prefix ?? text[i] ?? ''
    kept += next
    i += next.length
    if (prefix === undefined || !isBase64url(text[i] ?? '')) continue
    kept += '…'
    while (isBase64url(text[i] ?? '')) i++
  }
  return kept
}

/** Whether it is a token, whole or cut, as somebody writes it in the place of its file's path. */
export const looksLikeToken = (text: string): boolean =>
  Object.values(PREFIXES).some((prefix) => text.startsWith(prefix)) ||
  // The base64url of `{"`, which the header of a JWS begins with.
  (text.startsWith('eyJ') && isCompactJws(text) && !text.includes('/'))

/** SHA-256 in hexadecimal. A token has 256 random bits, so a hash without salt cannot be searched. */
export const hashToken = (token: string): Promise<string> => sha256Hex(utf8(token))

/** 1 to 128 of `A-Z a-z 0-9 _ -`. `/` is reserved for the nodes of clusters (`<cluster>/<node>`). */
export const isMintableRunnerId = (id: string): boolean =>
  id.length >= 1 && id.length <= 128 && everyCharacter(id, isBase64url)

/** Exactly two dots (RFC 7515 §7.1). Whether the parts are base64url and JSON is not looked at. */
export function isCompactJws(text: string): boolean {
  const first = text.indexOf('.')
  const second = text.indexOf('.', first + 1)
  return first !== -1 && second !== -1 && text.indexOf('.', second + 1) === -1
}
