// Makes and checks the nonce that is bound to a key: base64url(salt[16] ‖ SHA-256(salt ‖ SubjectPublicKeyInfo)). No I/O.

import { type Bytes, decodeBase64url, encodeBase64url, equalBytes, sha256 } from './bytes.ts'

const SALT_BYTES = 16
const NONCE_BYTES = SALT_BYTES + 32
/** 48 bytes in base64url. */
export const NONCE_CHARACTERS = 64

/** A fresh nonce for the key whose SubjectPublicKeyInfo (DER) is given. */
export async function makeNonce(spki: Uint8Array): Promise<string> {
  const salt = crypto.getRandomValues(new Uint8Array(SALT_BYTES))
  return encodeBase64url(await bind(salt, spki))
}

/** Whether `nonce` is well formed and was made for this SubjectPublicKeyInfo. */
export async function nonceIsBoundTo(nonce: string, spki: Uint8Array): Promise<boolean> {
  if (nonce.length !== NONCE_CHARACTERS) return false
  const bytes = decodeBase64url(nonce)
  if (bytes === null) return false
  return equalBytes(bytes, await bind(bytes.subarray(0, SALT_BYTES), spki))
}

async function bind(salt: Uint8Array, spki: Uint8Array): Promise<Bytes> {
  const salted = new Uint8Array(SALT_BYTES + spki.length)
  salted.set(salt)
  salted.set(spki, SALT_BYTES)
  const nonce = new Uint8Array(NONCE_BYTES)
  nonce.set(salt)
  nonce.set(await sha256(salted), SALT_BYTES)
  return nonce
}
