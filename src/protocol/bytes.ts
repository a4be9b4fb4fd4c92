// Encodes, decodes, hashes, compares and reads bytes: base64 and base64url (RFC 4648), hexadecimal, UTF-8, SHA-256.

/** Bytes as WebCrypto takes them: never in a shared buffer. */
export type Bytes = Uint8Array<ArrayBuffer>

/** RFC 4648 §4, with padding. */
export function encodeBase64(bytes: Uint8Array): string {
  let binary = ''
  for (const byte of bytes) binary += String.fromCharCode(byte)
  return btoa(binary)
}

/** The bytes of `text`, or null where it is not canonical base64 with padding; the empty text is none either. */
export function decodeBase64(text: string): Bytes | null {
  const binary = text === '' ? null : binaryOf(text)
  // atob takes white space, missing padding and spare bits, too: only one spelling of the bytes is accepted.
  if (binary === null || btoa(binary) !== text) return null
  const bytes = new Uint8Array(binary.length)
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i)
  return bytes
}

function binaryOf(text: string): string | null {
  try {
    return atob(text)
  } catch {
    return null
  }
}

/** RFC 4648 §5, without padding. */
export const encodeBase64url = (bytes: Uint8Array): string =>
  encodeBase64(bytes).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '')

/** The bytes of `text`, or null where it is not canonical base64url (padding, other alphabet, spare bits). */
export function decodeBase64url(text: string): Bytes | null {
  if (text === '') return new Uint8Array(0)
  if (text.includes('+') || text.includes('/') || text.includes('=')) return null
  const standard = text.replaceAll('-', '+').replaceAll('_', '/')
  return decodeBase64(standard.padEnd(Math.ceil(standard.length / 4) * 4, '='))
}

const encoder = new TextEncoder()
const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

export const utf8 = (text: string): Bytes => new Uint8Array(encoder.encode(text))

/** The text, a byte order mark included; null where the bytes are not UTF-8. */
export function decodeUtf8(bytes: Uint8Array): string | null {
  try {
    return decoder.decode(bytes)
  } catch {
    return null
  }
}

/** Lower case. */
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

export const sha256 = async (bytes: Bytes): Promise<Bytes> =>
  new Uint8Array(await crypto.subtle.digest('SHA-256', bytes))

export const sha256Hex = async (bytes: Bytes): Promise<string> => hex(await sha256(bytes))

/**
 * All bytes of `chunks`, or null where they are more than `limit`: reading stops there and cancels the rest. Bytes are
 * counted as they come, since announced lengths prove nothing and compression hides the size.
 */
export async function readUpTo(chunks: AsyncIterable<Uint8Array> | null, limit: number): Promise<Bytes | null> {
  const kept: Uint8Array[] = []
  let length = 0
  for await (const chunk of chunks ?? []) {
    length += chunk.byteLength
    if (length > limit) return null
    kept.push(chunk)
  }
  const whole = new Uint8Array(length)
  let offset = 0
  for (const chunk of kept) {
    whole.set(chunk, offset)
    offset += chunk.byteLength
  }
  return whole
}
