// Base64url without padding (RFC 4648 §5), strict both ways. No I/O.

/** Bytes whose buffer is their own, as WebCrypto takes them. */
export type Bytes = Uint8Array<ArrayBuffer>

export function encodeBase64url(bytes: Uint8Array): string {
  let binary = ''
  for (const byte of bytes) binary += String.fromCharCode(byte)
  return btoa(binary).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '')
}

/** The bytes of `text`, or null where it is not canonical base64url (padding, other alphabet, spare bits). */
export function decodeBase64url(text: string): Bytes | null {
  for (let i = 0; i < text.length; i++) {
    if (!isAlphabet(text.charCodeAt(i))) return null
  }
  if (text.length % 4 === 1) return null
  const binary = atob(text.replaceAll('-', '+').replaceAll('_', '/'))
  const bytes = new Uint8Array(binary.length)
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i)
  // atob ignores the spare bits of the last character: only one spelling of the bytes is ours.
  return encodeBase64url(bytes.subarray(bytes.length - (bytes.length % 3 || 3))) ===
    text.slice(Math.max(0, text.length - (text.length % 4 || 4)))
    ? bytes
    : null
}

function isAlphabet(c: number): boolean {
  return (c >= 65 && c <= 90) || (c >= 97 && c <= 122) || (c >= 48 && c <= 57) || c === 45 || c === 95
}

/** UTF-8. */
export const utf8 = (text: string): Bytes => new Uint8Array(new TextEncoder().encode(text))

export function hex(bytes: Uint8Array): string {
  let text = ''
  for (const byte of bytes) text += byte.toString(16).padStart(2, '0')
  return text
}

/** Equality in a time that depends on the lengths alone. */
export function equalBytes(a: Uint8Array, b: Uint8Array): boolean {
  if (a.length !== b.length) return false
  let difference = 0
  for (let i = 0; i < a.length; i++) difference |= (a[i] as number) ^ (b[i] as number)
  return difference === 0
}
