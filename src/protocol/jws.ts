// Tells whether a text is a compact JWS (RFC 7515 §7.1), without reading it. No I/O.

/** Exactly two dots: a compact JWS, or something that wants to be one. */
export function isCompactJws(text: string): boolean {
  const first = text.indexOf('.')
  const second = text.indexOf('.', first + 1)
  return first !== -1 && second !== -1 && text.indexOf('.', second + 1) === -1
}
