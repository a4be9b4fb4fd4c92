// Makes and reads keys, and signs with them: a P-256 key and its CSR for each request, the proof of a renewal and of a
// connection.

import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject, sign } from 'node:crypto'
import { encodeBase64url } from '../../protocol/bytes.ts'
import { TAG } from '../../protocol/der.ts'
import {
  bitString,
  characterString,
  element,
  objectIdentifier,
  sequence,
  set,
  unsignedInteger,
} from '../../protocol/der-writer.ts'
import { makeNonce } from '../../protocol/nonce.ts'
import { OID } from '../../protocol/oids.ts'
import { encodePem, parsePemFile } from '../../protocol/pem.ts'

/** The key of one request and of all its retries. */
export interface RequestKey {
  readonly key: KeyObject
  /** PEM of the PKCS#10 request. */
  readonly csr: string
  /** Names the key; it is the CSR's challengePassword. */
  readonly nonce: string
}

export async function newRequestKey(): Promise<RequestKey> {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'prime256v1' })
  const nonce = await makeNonce(spkiOf(privateKey))
  return { key: privateKey, csr: makeCsr(privateKey, nonce), nonce }
}

/** PKCS#8 PEM. */
export const keyPem = (key: KeyObject): string => key.export({ type: 'pkcs8', format: 'pem' }).toString()

/** The two forms of an unencrypted private key, by their PEM label (RFC 5958, RFC 5915). */
const KEY_FORMATS = new Map<string, 'pkcs8' | 'sec1'>([
  ['PRIVATE KEY', 'pkcs8'],
  ['EC PRIVATE KEY', 'sec1'],
])
/** A file may hold the certificate and its chain beside the key. */
const MAX_BLOCKS = 16

/** The first P-256 private key of a PEM text, or null, never a reason, which could quote it. */
export function readKey(pem: string): KeyObject | null {
  const blocks = parsePemFile(pem, MAX_BLOCKS)
  const block = blocks.ok ? blocks.value.find(({ label }) => KEY_FORMATS.has(label)) : undefined
  const type = KEY_FORMATS.get(block?.label ?? '')
  if (block === undefined || type === undefined) return null
  try {
    const key = createPrivateKey({ key: Buffer.from(block.bytes), format: 'der', type })
    return key.asymmetricKeyDetails?.namedCurve === 'prime256v1' ? key : null
  } catch {
    return null
  }
}

/** SubjectPublicKeyInfo, 91 octets. */
export const spkiOf = (key: KeyObject): Buffer => createPublicKey(key).export({ type: 'spki', format: 'der' })

/** ECDSA P-256 with SHA-256 over the bytes of `text`, r‖s (64 octets). */
export const signText = (key: KeyObject, text: string): Buffer =>
  sign('sha256', Buffer.from(text), { key, dsaEncoding: 'ieee-p1363' })

/** The proof of a renewal: the current key's signature over the new nonce. */
export const signNonce = (key: KeyObject, nonce: string): string => encodeBase64url(signText(key, nonce))

const VERSION_0 = unsignedInteger(Uint8Array.of(0))
/** `[0]`, the attributes of a request. */
const ATTRIBUTES = 0xa0

/** RFC 2986 §4: no names, one attribute. base64url holds `_`, which PrintableString does not. */
function makeCsr(key: KeyObject, challenge: string): string {
  const password = sequence(objectIdentifier(OID.challengePassword), set(characterString(TAG.utf8String, challenge)))
  const info = sequence(VERSION_0, sequence(), spkiOf(key), element(ATTRIBUTES, password))
  const signature = sign('sha256', info, { key, dsaEncoding: 'der' })
  // RFC 5758 §3.2: without parameters.
  const algorithm = sequence(objectIdentifier(OID.ecdsaSha256))
  return encodePem('CERTIFICATE REQUEST', sequence(info, algorithm, bitString(signature)))
}
