// The form of minted tokens and of the runner IDs they may be minted for. No I/O.

import { encodeBase64url, utf8 } from './base64url.ts'
import { everyCharacter, isLetterOrDigit } from './characters.ts'
import { sha256Hex } from './digest.ts'

export type TokenKind = 'bootstrap' | 'runner'

const PREFIXES: Record<TokenKind, string> = { bootstrap: 'muster_bt_', runner: 'muster_rt_' }
const SECRET_BYTES = 32
const SECRET_CHARACTERS = 43

/** A fresh token: its prefix, then 32 random bytes in base64url. Shown once, kept as `hashToken` only. */
export const mintToken = (kind: TokenKind): string =>
  PREFIXES[kind] + encodeBase64url(crypto.getRandomValues(new Uint8Array(SECRET_BYTES)))

/** The kind that a token says it is, or null where it has not the form of one. */
export function kindOfToken(token: string): TokenKind | null {
  const kind = (['bootstrap', 'runner'] as const).find((k) => token.startsWith(PREFIXES[k]))
  if (kind === undefined) return null
  const secret = token.slice(PREFIXES[kind].length)
  return secret.length === SECRET_CHARACTERS && everyCharacter(secret, isBase64url) ? kind : null
}

/** SHA-256 in hex. The token has 256 random bits, so a plain hash of it cannot be searched. */
export const hashToken = (token: string): Promise<string> => sha256Hex(utf8(token))

/** An ID to mint for: 1 to 128 of `A-Z a-z 0-9 _ -`. `/` belongs to workloads (`<cluster>/<node>`), `.` to nothing. */
export const isMintableRunnerId = (id: string): boolean =>
  id.length >= 1 && id.length <= 128 && everyCharacter(id, isBase64url)

const isBase64url = (c: string): boolean => isLetterOrDigit(c) || c === '_' || c === '-'
