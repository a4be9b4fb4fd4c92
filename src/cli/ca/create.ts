// Makes certificate authorities: for an operator's folder (`muster ca init`) and for the local edge (`muster dev`).

import 'reflect-metadata'
import {
  AuthorityKeyIdentifierExtension,
  BasicConstraintsExtension,
  ExtendedKeyUsageExtension,
  type Extension,
  KeyUsageFlags,
  KeyUsagesExtension,
  Name,
  SubjectAlternativeNameExtension,
  SubjectKeyIdentifierExtension,
  X509CertificateGenerator,
} from '@peculiar/x509'
import { type Bytes, hex } from '../../protocol/bytes.ts'
import { NOT_BEFORE_BACKDATE } from '../../protocol/limits.ts'
import { OID } from '../../protocol/oids.ts'
import { encodePem, parsePem } from '../../protocol/pem.ts'
import { addSeconds, type EpochSeconds, hours, type Seconds, subtractSeconds } from '../../protocol/time.ts'
import { DEVELOPMENT_MARK } from '../../worker/ca/authority.ts'
import { readCertificate } from '../../worker/ca/certificate.ts'
import type { Key, KeyPair } from '../../worker/ca/keys.ts'
import { newSerial } from '../../worker/ca/profile.ts'
import { keyIdentifierOf, p256PointOf } from '../../worker/ca/public-key.ts'

/** All PEM. `issuing` is the value of CA_CERT: the issuing certificate, then its root. */
export interface CaFolder {
  readonly rootKey: string
  readonly root: string
  readonly issuingKey: string
  readonly issuing: string
}

export interface KeyAndCertificate {
  readonly key: string
  readonly certificate: string
}

const ROOT_LIFETIME = hours(10 * 365 * 24)
const ISSUING_LIFETIME = hours(2 * 365 * 24)
const SERVER_LIFETIME = hours(365 * 24)
const P256 = { name: 'ECDSA', namedCurve: 'P-256' }
const SHA256 = { name: 'ECDSA', hash: 'SHA-256' }

/** `development`: marked, so that the deployed entry refuses it. */
interface Options {
  readonly development: boolean
  readonly now: EpochSeconds
}

/** A root and an issuing certificate under it, P-256. */
export async function createCa(options: Options): Promise<CaFolder> {
  const root = await createRoot(options)
  const issuing = await createIssuing(root, options)
  return {
    rootKey: root.key,
    root: root.certificate,
    issuingKey: issuing.key,
    issuing: issuing.certificate + root.certificate,
  }
}

async function createRoot({ development, now }: Options): Promise<KeyAndCertificate> {
  const keys = await generateKeys()
  const identifier = await identifierOf(keys)
  const certificate = await sign(
    {
      subject: nameOf('Root', identifier, development),
      now,
      lifetime: ROOT_LIFETIME,
      extensions: caExtensions(1, identifier, identifier),
    },
    keys.publicKey,
    null,
    keys.privateKey,
  )
  return { key: await privatePem(keys), certificate }
}

/** An issuing certificate under a root. */
async function createIssuing(root: KeyAndCertificate, options: Options): Promise<KeyAndCertificate> {
  const issuer = await openIssuer(root)
  const keys = await generateKeys()
  const identifier = await identifierOf(keys)
  const certificate = await sign(
    {
      subject: nameOf('Issuing CA', identifier, options.development),
      now: options.now,
      lifetime: ISSUING_LIFETIME,
      extensions: caExtensions(0, identifier, issuer.identifier),
    },
    keys.publicKey,
    issuer.name,
    issuer.key,
  )
  return { key: await privatePem(keys), certificate }
}

/** A server certificate for this machine's loopback names, under an issuing certificate of the local edge. */
export async function createServerCertificate(
  issuing: KeyAndCertificate,
  now: EpochSeconds,
): Promise<KeyAndCertificate> {
  const issuer = await openIssuer(issuing)
  const keys = await generateKeys()
  const certificate = await sign(
    {
      subject: new Name([{ CN: ['localhost'] }]),
      now,
      lifetime: SERVER_LIFETIME,
      extensions: [
        new BasicConstraintsExtension(false, undefined, true),
        new KeyUsagesExtension(KeyUsageFlags.digitalSignature, true),
        new ExtendedKeyUsageExtension([OID.serverAuth]),
        new SubjectKeyIdentifierExtension(await identifierOf(keys)),
        new AuthorityKeyIdentifierExtension(issuer.identifier),
        new SubjectAlternativeNameExtension([
          { type: 'dns', value: 'localhost' },
          { type: 'ip', value: '127.0.0.1' },
          { type: 'ip', value: '::1' },
        ]),
      ],
    },
    keys.publicKey,
    issuer.name,
    issuer.key,
  )
  return { key: await privatePem(keys), certificate }
}

/** A fresh P-256 key for a provisioned runner: PKCS#8 PEM and its SubjectPublicKeyInfo. */
export async function createRunnerKey(): Promise<{ readonly key: string; readonly spki: Bytes }> {
  const keys = await generateKeys()
  return { key: await privatePem(keys), spki: await spkiOf(keys) }
}

/** Key identifiers differ, so the names of two CAs do, too: a rotation never has two issuers of one name. */
function nameOf(role: string, identifier: string, development: boolean): Name {
  return new Name([
    { O: ['Muster'] },
    ...(development ? [{ OU: [DEVELOPMENT_MARK] }] : []),
    { CN: [`Muster ${role} ${identifier.slice(0, 8)}`] },
  ])
}

const caExtensions = (pathLength: number, subject: string, authority: string): Extension[] => [
  new BasicConstraintsExtension(true, pathLength, true),
  new KeyUsagesExtension(KeyUsageFlags.keyCertSign | KeyUsageFlags.cRLSign, true),
  new SubjectKeyIdentifierExtension(subject),
  new AuthorityKeyIdentifierExtension(authority),
]

interface Content {
  readonly subject: Name
  readonly now: EpochSeconds
  readonly lifetime: Seconds
  readonly extensions: Extension[]
}

/** PEM of a certificate; `issuer` null for a self-signed one. */
async function sign(content: Content, publicKey: Key, issuer: Name | null, key: Key): Promise<string> {
  const certificate = await X509CertificateGenerator.create({
    serialNumber: newSerial(),
    subject: content.subject,
    issuer: issuer ?? content.subject,
    notBefore: new Date(subtractSeconds(content.now, NOT_BEFORE_BACKDATE) * 1000),
    notAfter: new Date(addSeconds(content.now, content.lifetime) * 1000),
    publicKey,
    signingKey: key,
    signingAlgorithm: SHA256,
    extensions: content.extensions,
  })
  return encodePem('CERTIFICATE', new Uint8Array(certificate.rawData))
}

/** Reads back what this file wrote: the first certificate, and its P-256 key. */
async function openIssuer({ key, certificate }: KeyAndCertificate) {
  const keyBlocks = parsePem(key, 1)
  const blocks = parsePem(certificate, 10)
  const [first] = blocks.ok ? blocks.value : []
  const read = first === undefined ? null : readCertificate(first.bytes)
  const identifier = read?.extensions.subjectKeyIdentifier
  const [keyBlock] = keyBlocks.ok ? keyBlocks.value : []
  if (keyBlock === undefined || read === null || !identifier) {
    throw new Error('not a key and certificate that this program made')
  }
  return {
    key: await crypto.subtle.importKey('pkcs8', keyBlock.bytes, P256, false, ['sign']),
    name: new Name(read.subject),
    identifier: hex(identifier),
  }
}

// Both runtimes answer a key pair for ECDSA; their types say "pair or secret key".
const generateKeys = async (): Promise<KeyPair> =>
  (await crypto.subtle.generateKey(P256, true, ['sign', 'verify'])) as KeyPair

const privatePem = async ({ privateKey }: KeyPair): Promise<string> =>
  encodePem('PRIVATE KEY', new Uint8Array((await crypto.subtle.exportKey('pkcs8', privateKey)) as ArrayBuffer))

const spkiOf = async ({ publicKey }: KeyPair): Promise<Bytes> =>
  new Uint8Array((await crypto.subtle.exportKey('spki', publicKey)) as ArrayBuffer)

async function identifierOf(keys: KeyPair): Promise<string> {
  const point = p256PointOf(await spkiOf(keys))
  if (point === null) throw new Error('the runtime made a key of another form')
  return hex(await keyIdentifierOf(point))
}
