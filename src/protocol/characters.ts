// Classes of characters for grammars without patterns, and texts made safe for a log or a terminal. No I/O.

export const isDigit = (c: string): boolean => c >= '0' && c <= '9'
export const isLetter = (c: string): boolean => (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')
export const isLetterOrDigit = (c: string): boolean => isLetter(c) || isDigit(c)
/** Lower case. */
export const isHexDigit = (c: string): boolean => isDigit(c) || (c >= 'a' && c <= 'f')
/** The alphabet of base64url (RFC 4648 §5). */
export const isBase64url = (c: string): boolean => isLetterOrDigit(c) || c === '_' || c === '-'
export const isLowerOrDigit = (c: string): boolean => (c >= 'a' && c <= 'z') || isDigit(c)

/** True of the empty text. */
export function everyCharacter(text: string, allowed: (character: string) => boolean): boolean {
  for (const character of text) if (!allowed(character)) return false
  return true
}

/**
 * Whether `text` is safe to print: no control characters (C0, DEL, C1, line and paragraph separators)
 * and no bidirectional ones, which can make a line read as another (CVE-2021-42574).
 */
export function isPrintable(text: string): boolean {
  for (const character of text) {
    const c = character.codePointAt(0) as number
    if (c < 0x20 || (c >= 0x7f && c <= 0x9f)) return false
    if (c === 0x200e || c === 0x200f || c === 0x061c || (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069))
      return false
    if (c === 0xfeff || (c >= 0xd800 && c <= 0xdfff)) return false
  }
  return true
}

/** The text with every unsafe character escaped as `\uXXXX`. */
export const printable = (text: string): string =>
  Array.from(text, (c) => (isPrintable(c) ? c : `\\u${(c.codePointAt(0) ?? 0).toString(16).padStart(4, '0')}`)).join('')

/** A foreign text in quotes, printable and cut to `most` characters, so that a line which holds it stays one line. */
export const quote = (text: string, most = 100): string =>
  printable(JSON.stringify(text.length > most ? `${text.slice(0, most)}…` : text))
