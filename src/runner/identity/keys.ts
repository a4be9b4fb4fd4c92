// Makes and reads keys, and signs with them: a P-256 key and its CSR for each request, the proof of a renewal and of a
// connection.
// The CSR has one form and fixed lengths, so it is written as DER: a general ASN.1 library would be most of a
// runner's memory.

import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject, sign } from 'node:crypto'
import { encodeBase64url } from '../../protocol/base64url.ts'
import { makeNonce } from '../../protocol/nonce.ts'
import { parsePemFile } from '../../protocol/pem.ts'

/** What one request is made with, through all its retries. */
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

/** The first P-256 private key of a PEM text, or null. What is wrong with it must not be quoted. */
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

/** 1.2.840.113549.1.9.7 (RFC 2985 §5.4.1). */
const CHALLENGE_PASSWORD = Buffer.from('06092a864886f70d010907', 'hex')
/** AlgorithmIdentifier ecdsa-with-SHA256, without parameters (RFC 5758 §3.2). */
const ECDSA_SHA256 = Buffer.from('300a06082a8648ce3d040302', 'hex')
const VERSION_0 = Buffer.from('020100', 'hex')
const [SEQUENCE, SET, UTF8_STRING, BIT_STRING, ATTRIBUTES] = [0x30, 0x31, 0x0c, 0x03, 0xa0]

/** RFC 2986 §4: no names, one attribute. base64url holds `_`, which PrintableString does not. */
function makeCsr(key: KeyObject, challenge: string): string {
  const password = der(SEQUENCE, CHALLENGE_PASSWORD, der(SET, der(UTF8_STRING, Buffer.from(challenge))))
  const info = der(SEQUENCE, VERSION_0, der(SEQUENCE), spkiOf(key), der(ATTRIBUTES, password))
  const signature = sign('sha256', info, { key, dsaEncoding: 'der' })
  const request = der(SEQUENCE, info, ECDSA_SHA256, der(BIT_STRING, Buffer.of(0), signature))
  const lines = request.toString('base64').match(/.{1,64}/g) ?? []
  return `-----BEGIN CERTIFICATE REQUEST-----\n${lines.join('\n')}\n-----END CERTIFICATE REQUEST-----\n`
}

/** One element with a definite, minimal length below 64 KiB (X.690 §10.1). */
function der(tag: number, ...parts: Buffer[]): Buffer {
  const body = Buffer.concat(parts)
  const { length } = body
  const size = length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff]
  return Buffer.concat([Buffer.of(tag, ...size), body])
}
