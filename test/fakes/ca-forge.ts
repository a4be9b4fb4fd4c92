// Makes valid and invalid certificates and CSRs: with the library, or octet by octet where the library would refuse.
import 'reflect-metadata'
import {
  AuthorityKeyIdentifierExtension,
  BasicConstraintsExtension,
  ExtendedKeyUsageExtension,
  type Extension,
  type JsonName,
  KeyUsageFlags,
  KeyUsagesExtension,
  Name,
  SubjectAlternativeNameExtension,
  SubjectKeyIdentifierExtension,
  X509CertificateGenerator,
} from '@peculiar/x509'
import type { KeyPair } from '../../src/worker/ca/keys.ts'

export type Octets = Uint8Array<ArrayBuffer>

/** One DER element. */
export function element(tag: number, ...parts: (Uint8Array | string)[]): Octets {
  const contents = parts.flatMap((part) => [...(typeof part === 'string' ? new TextEncoder().encode(part) : part)])
  const n = contents.length
  const length =
    n < 0x80
      ? [n]
      : n < 0x100
        ? [0x81, n]
        : n < 0x10000
          ? [0x82, n >> 8, n & 0xff]
          : [0x83, n >> 16, (n >> 8) & 0xff, n & 0xff]
  return Uint8Array.from([tag, ...length, ...contents])
}

export const bytesOf = (hex: string): Octets =>
  Uint8Array.from({ length: hex.length / 2 }, (_, i) => Number.parseInt(hex.slice(i * 2, i * 2 + 2), 16))

const CHALLENGE_PASSWORD = bytesOf('06092a864886f70d010907')
const EXTENSION_REQUEST = bytesOf('06092a864886f70d01090e')
const ECDSA_SHA256 = bytesOf('300a06082a8648ce3d040302')

export const challenge = (text: string, tag = 0x0c): Octets =>
  element(0x30, CHALLENGE_PASSWORD, element(0x31, element(tag, text)))

/** An extensionRequest with one extension: the OID's octets and the DER of its value. */
export const extensionRequest = (oid: Octets, value: Octets): Octets =>
  element(0x30, EXTENSION_REQUEST, element(0x31, element(0x30, element(0x30, oid, element(0x04, value)))))

export const generateP256 = async (): Promise<KeyPair> =>
  (await crypto.subtle.generateKey({ name: 'ECDSA', namedCurve: 'P-256' }, true, ['sign', 'verify'])) as KeyPair

export const spkiOf = async (keys: KeyPair): Promise<Octets> =>
  new Uint8Array((await crypto.subtle.exportKey('spki', keys.publicKey)) as ArrayBuffer)

/** A CSR in DER with the given attributes, well signed. */
export async function forgeCsr(keys: KeyPair, attributes: readonly Octets[], subject = element(0x30)): Promise<Octets> {
  const info = element(0x30, bytesOf('020100'), subject, await spkiOf(keys), element(0xa0, ...attributes))
  const raw = await crypto.subtle.sign({ name: 'ECDSA', hash: 'SHA-256' }, keys.privateKey, info)
  return element(0x30, info, ECDSA_SHA256, element(0x03, Uint8Array.of(0), ecdsaDer(new Uint8Array(raw))))
}

/** By way of BigInt, so that it shares nothing with what it tests. */
function ecdsaDer(raw: Uint8Array): Octets {
  const integer = (octets: Uint8Array) => {
    let text = BigInt(`0x${[...octets].map((octet) => octet.toString(16).padStart(2, '0')).join('')}`).toString(16)
    if (text.length % 2 === 1) text = `0${text}`
    return element(0x02, bytesOf(Number.parseInt(text.slice(0, 2), 16) >= 0x80 ? `00${text}` : text))
  }
  return element(0x30, integer(raw.subarray(0, raw.length / 2)), integer(raw.subarray(raw.length / 2)))
}

export function pem(label: string, der: Uint8Array, lineEnd = '\n'): string {
  let binary = ''
  for (const octet of der) binary += String.fromCharCode(octet)
  const lines = btoa(binary).match(/.{1,64}/g) ?? []
  return [`-----BEGIN ${label}-----`, ...lines, `-----END ${label}-----`, ''].join(lineEnd)
}

export interface Issuer {
  readonly keys: KeyPair
  readonly name: Name
  readonly keyId: string
  readonly der: Octets
  readonly pem: string
  readonly keyPem: string
}

export interface CaOptions {
  readonly name?: string | JsonName
  readonly keyId?: string
  readonly serial?: string
  readonly curve?: 'P-256' | 'P-384'
  readonly notBefore?: Date
  readonly notAfter?: Date
  readonly extensions?: readonly Extension[]
  /** Null leaves it out. */
  readonly subjectKeyId?: Extension | null
  readonly authorityKeyId?: Extension | null
  /** Signed by this one; by itself where absent. */
  readonly issuer?: Issuer
}

/** The extension that is given, or the usual one; null is none. */
const or = (given: Extension | null | undefined, usual: () => Extension): Extension[] =>
  given === null ? [] : [given ?? usual()]

let made = 0

/** A CA certificate. */
export async function forgeCa(options: CaOptions = {}): Promise<Issuer> {
  const curve = options.curve ?? 'P-256'
  const keys = (await crypto.subtle.generateKey({ name: 'ECDSA', namedCurve: curve }, true, [
    'sign',
    'verify',
  ])) as KeyPair
  const name = new Name(options.name ?? `CN=Test CA ${++made}`)
  const keyId = options.keyId ?? made.toString(16).padStart(40, 'a')
  const signing = options.issuer?.keys ?? keys
  const certificate = await X509CertificateGenerator.create({
    serialNumber: options.serial ?? '4142434445464748',
    subject: name,
    issuer: options.issuer?.name ?? name,
    notBefore: options.notBefore ?? new Date('2026-01-01T00:00:00Z'),
    notAfter: options.notAfter ?? new Date('2046-01-01T00:00:00Z'),
    publicKey: keys.publicKey,
    signingKey: signing.privateKey,
    signingAlgorithm: { name: 'ECDSA', hash: 'SHA-256' },
    extensions: [
      ...(options.extensions ?? [
        new BasicConstraintsExtension(true, undefined, true),
        new KeyUsagesExtension(KeyUsageFlags.keyCertSign | KeyUsageFlags.cRLSign, true),
      ]),
      ...or(options.subjectKeyId, () => new SubjectKeyIdentifierExtension(keyId)),
      ...or(options.authorityKeyId, () => new AuthorityKeyIdentifierExtension(options.issuer?.keyId ?? keyId)),
    ],
  })
  const der = new Uint8Array(certificate.rawData)
  const pkcs8 = new Uint8Array((await crypto.subtle.exportKey('pkcs8', keys.privateKey)) as ArrayBuffer)
  return { keys, name, keyId, der, pem: pem('CERTIFICATE', der), keyPem: pem('PRIVATE KEY', pkcs8) }
}

export interface LeafOptions {
  readonly keys?: KeyPair
  readonly subject?: JsonName
  readonly uris?: readonly string[]
  readonly basicConstraints?: Extension | null
  readonly keyUsage?: Extension | null
  readonly extendedKeyUsage?: Extension | null
  readonly subjectAltName?: Extension | null
  readonly more?: readonly Extension[]
  readonly notBefore?: Date
  readonly notAfter?: Date
  readonly serial?: string
}

export const LEAF_SUBJECT: JsonName = [
  { O: ['acme'] },
  { OU: ['provisioned:'] },
  { CN: ['01a227d6-456c-7e63-afe4-79a0e771d070'] },
]
export const LEAF_URI = 'spiffe://rootpilot/tenant/acme/runner'

/** A leaf of the right profile, but for what `options` change; null leaves an extension out. */
export async function forgeLeaf(issuer: Issuer, options: LeafOptions = {}): Promise<{ keys: KeyPair; der: Octets }> {
  const keys = options.keys ?? (await generateP256())
  const certificate = await X509CertificateGenerator.create({
    serialNumber: options.serial ?? '41000000000000000000000000000001',
    subject: options.subject ?? LEAF_SUBJECT,
    issuer: issuer.name,
    notBefore: options.notBefore ?? new Date('2026-03-01T11:59:00Z'),
    notAfter: options.notAfter ?? new Date('2026-03-01T12:15:00Z'),
    publicKey: keys.publicKey,
    signingKey: issuer.keys.privateKey,
    signingAlgorithm: { name: 'ECDSA', hash: 'SHA-256' },
    extensions: [
      ...or(options.basicConstraints, () => new BasicConstraintsExtension(false, undefined, true)),
      ...or(options.keyUsage, () => new KeyUsagesExtension(KeyUsageFlags.digitalSignature, true)),
      ...or(options.extendedKeyUsage, () => new ExtendedKeyUsageExtension(['1.3.6.1.5.5.7.3.2', '1.3.6.1.5.5.7.3.1'])),
      new SubjectKeyIdentifierExtension('b'.repeat(40)),
      new AuthorityKeyIdentifierExtension(issuer.keyId),
      ...or(
        options.subjectAltName,
        () =>
          new SubjectAlternativeNameExtension(
            (options.uris ?? [LEAF_URI]).map((value) => ({ type: 'url' as const, value })),
          ),
      ),
      ...(options.more ?? []),
    ],
  })
  return { keys, der: new Uint8Array(certificate.rawData) }
}
