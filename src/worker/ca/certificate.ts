// Parses X.509 v3 certificates (RFC 5280 §4.1) with the strict DER reader. Shape only: authority.ts and presented.ts judge
// issuer and use, and inspect.ts compares what the CA made.

import { type Bytes, equalBytes } from '../../protocol/bytes.ts'
import { bitsOf, type Element, isSequence, oidOf, parseDer, smallIntegerOf, TAG } from '../../protocol/der.ts'
import { CERTIFICATE_BYTES } from '../../protocol/limits.ts'
import type { EpochSeconds } from '../../protocol/time.ts'
import { type Extensions, readExtensions } from './extensions.ts'
import { textOf, timeOf } from './text.ts'

export interface Certificate {
  readonly der: Bytes
  /** DER of the TBSCertificate, which is signed. */
  readonly tbs: Bytes
  readonly signatureAlgorithm: SignatureAlgorithm
  readonly signature: Bytes
  /** Contents of the INTEGER: positive, at most 20 octets. */
  readonly serial: Bytes
  /** DER of the names, which are compared byte for byte. */
  readonly issuer: Bytes
  readonly subject: Bytes
  readonly subjectAttributes: readonly NameAttribute[]
  readonly notBefore: EpochSeconds
  readonly notAfter: EpochSeconds
  /** DER of the SubjectPublicKeyInfo. */
  readonly spki: Bytes
  /** Contents of its BIT STRING; key identifiers are hashes of them. */
  readonly publicKey: Bytes
  readonly extensions: Extensions
}

export interface SignatureAlgorithm {
  readonly oid: string
  readonly parameters: Bytes | null
}

export interface NameAttribute {
  readonly type: string
  /** Null where the value is no character string. */
  readonly text: string | null
}

/** RFC 5280 §4.1.2.2. */
const SERIAL_OCTETS = 20

/** The certificate that fills `der`, or null for anything but an X.509 v3 certificate in DER. */
export function readCertificate(der: Bytes): Certificate | null {
  if (der.length > CERTIFICATE_BYTES) return null
  const certificate = sequenceOf(parseDer(der), 3)
  const [tbs, outerAlgorithm, signatureBits] = certificate ?? []
  const fields = sequenceOf(tbs, 8)
  if (tbs === undefined || fields === null) return null
  const [version, serial, algorithm, issuer, validity, subject, publicKey, extensionsField] = fields
  if (version?.tag !== 0xa0 || version.children.length !== 1 || smallIntegerOf(version.children[0]) !== 2) return null
  if (serial?.tag !== TAG.integer || !isSerial(serial.contents)) return null

  const signatureAlgorithm = algorithmOf(algorithm)
  const signature = bitsOf(signatureBits)
  // RFC 5280 §4.1.1.2: inside and outside name the same algorithm.
  if (signatureAlgorithm === null || signature === null || !same(algorithm, outerAlgorithm)) return null

  const [from, to, ...more] = sequenceOf(validity) ?? []
  const notBefore = timeOf(from)
  const notAfter = timeOf(to)
  if (notBefore === null || notAfter === null || more.length > 0 || notAfter < notBefore) return null

  const subjectAttributes = attributesOf(subject)
  const key = bitsOf(sequenceOf(publicKey, 2)?.[1])
  if (issuer === undefined || attributesOf(issuer) === null || subject === undefined || subjectAttributes === null) {
    return null
  }
  if (publicKey === undefined || key === null) return null

  const [list, ...others] = extensionsField?.tag === 0xa3 ? extensionsField.children : []
  const extensions = others.length === 0 ? readExtensions(sequenceOf(list) ?? []) : null
  if (extensions === null || list?.tag !== TAG.sequence || list.children.length === 0) return null
  return {
    der,
    tbs: tbs.bytes,
    signatureAlgorithm,
    signature,
    serial: serial.contents,
    issuer: issuer.bytes,
    subject: subject.bytes,
    subjectAttributes,
    notBefore,
    notAfter,
    spki: publicKey.bytes,
    publicKey: key,
    extensions,
  }
}

const sequenceOf = (element: Element | null | undefined, length?: number): readonly Element[] | null =>
  isSequence(element, length) ? element.children : null

const isSerial = (contents: Bytes): boolean => {
  const first = contents[0] as number
  return contents.length <= SERIAL_OCTETS && first < 0x80 && (contents.length > 1 || first !== 0)
}

function algorithmOf(element: Element | undefined): SignatureAlgorithm | null {
  const [type, parameters, ...more] = sequenceOf(element) ?? []
  const oid = oidOf(type)
  return oid === null || more.length > 0 ? null : { oid, parameters: parameters?.bytes ?? null }
}

const same = (a: Element | undefined, b: Element | undefined): boolean =>
  a !== undefined && b !== undefined && equalBytes(a.bytes, b.bytes)

/** The attributes of a Name in order, or null where it is none; multi-valued RDNs are laid flat. */
function attributesOf(name: Element | undefined): readonly NameAttribute[] | null {
  const attributes: NameAttribute[] = []
  const rdns = sequenceOf(name)
  if (rdns === null) return null
  for (const rdn of rdns) {
    if (rdn.tag !== TAG.set || rdn.children.length === 0) return null
    for (const attribute of rdn.children) {
      const [type, value] = sequenceOf(attribute, 2) ?? []
      const oid = oidOf(type)
      if (oid === null) return null
      attributes.push({ type: oid, text: textOf(value) })
    }
  }
  return attributes
}
