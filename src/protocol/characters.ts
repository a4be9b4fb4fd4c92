// Classes of ASCII characters, for grammars that are read character by character and not by patterns. No I/O.

export const isDigit = (c: string): boolean => c >= '0' && c <= '9'
export const isLetter = (c: string): boolean => (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')
export const isLetterOrDigit = (c: string): boolean => isLetter(c) || isDigit(c)
export const isLowerOrDigit = (c: string): boolean => (c >= 'a' && c <= 'z') || isDigit(c)

/** True of the empty text. */
export function everyCharacter(text: string, allowed: (character: string) => boolean): boolean {
  for (const character of text) if (!allowed(character)) return false
  return true
}
