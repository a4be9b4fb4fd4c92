// Text that an operator will see in a log, a table or a page. No I/O.

/**
 * Whether `text` can be shown as it is: no control characters (C0, DEL, C1, line and paragraph separators)
 * and no bidirectional ones, which can make a line read as another (CVE-2021-42574).
 */
export function isLabel(text: string): boolean {
  for (const character of text) {
    const c = character.codePointAt(0) as number
    if (c < 0x20 || (c >= 0x7f && c <= 0x9f)) return false
    if (c === 0x200e || c === 0x200f || c === 0x061c || (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069))
      return false
    if (c === 0xfeff || (c >= 0xd800 && c <= 0xdfff)) return false
  }
  return true
}

/** The text with everything that cannot be shown as it is written as `\uXXXX`. */
export const printable = (text: string): string =>
  Array.from(text, (c) => (isLabel(c) ? c : `\\u${(c.codePointAt(0) ?? 0).toString(16).padStart(4, '0')}`)).join('')

/** Somebody else's words, short and printable, in quotes: a line that holds them reads as one line. */
export const quote = (text: string, most = 100): string =>
  printable(JSON.stringify(text.length > most ? `${text.slice(0, most)}…` : text))
