// Parses the certificate extensions that Muster uses (RFC 5280 §4.2, RFC 9608). Pure.

import type { Bytes } from '../../protocol/bytes.ts'
import { type Element, oidOf, parseDer, smallIntegerOf, TAG } from '../../protocol/der.ts'
import { OID } from '../../protocol/oids.ts'

export interface Extensions {
  readonly basicConstraints: { readonly ca: boolean; readonly pathLength: number | null } | null
  /** Bits of KeyUsage, `KEY_USAGE`. */
  readonly keyUsage: number | null
  readonly extendedKeyUsage: readonly string[] | null
  /** GeneralNames. */
  readonly subjectAltName: readonly Element[] | null
  readonly subjectKeyIdentifier: Bytes | null
  /** `keyIdentifier` of AuthorityKeyIdentifier. */
  readonly authorityKeyIdentifier: Bytes | null
  /** DER of the first directory name in `authorityCertIssuer` of AuthorityKeyIdentifier. */
  readonly authorityIssuer: Bytes | null
  /** `authorityCertSerialNumber` of AuthorityKeyIdentifier: the contents of the INTEGER. */
  readonly authoritySerial: Bytes | null
  readonly noRevAvail: boolean
  /** OIDs of those above that are critical. */
  readonly critical: ReadonlySet<string>
  /**
   * Whether any other extension is critical, or there are name constraints, which verifiers always apply. Such a
   * certificate must be refused (§4.2).
   */
  readonly unknownCritical: boolean
}

/** Bit i of the BIT STRING is 1 << i (RFC 5280 §4.2.1.3). */
export const KEY_USAGE = { digitalSignature: 1 << 0, keyCertSign: 1 << 5, cRLSign: 1 << 6 } as const

/** The GeneralName choices of a URI and of a directory name. */
export const URI_NAME = 0x86
const DIRECTORY_NAME = 0xa4

const KNOWN: ReadonlySet<string> = new Set([
  OID.basicConstraints,
  OID.keyUsage,
  OID.extendedKeyUsage,
  OID.subjectAltName,
  OID.subjectKeyIdentifier,
  OID.authorityKeyIdentifier,
  OID.noRevAvail,
])

/** All of a certificate's extensions, or null where one is malformed or repeated. */
export function readExtensions(elements: readonly Element[]): Extensions | null {
  const known = new Map<string, Element>()
  const seen = new Set<string>()
  const critical = new Set<string>()
  let unknownCritical = false
  for (const element of elements) {
    const [type, ...rest] = element.children
    const oid = oidOf(type)
    const value = rest.at(-1)
    if (element.tag !== TAG.sequence || oid === null || value?.tag !== TAG.octetString || seen.has(oid)) return null
    seen.add(oid)
    // DER leaves out FALSE, so `critical` can only be TRUE.
    const isCritical = rest.length === 2
    if (rest.length > 2 || (isCritical && !isTrue(rest[0]))) return null
    if (!KNOWN.has(oid)) {
      unknownCritical ||= isCritical || oid === OID.nameConstraints
      continue
    }
    if (isCritical) critical.add(oid)
    const inner = parseDer(value.contents)
    if (inner === null) return null
    known.set(oid, inner)
  }

  const read = <T>(oid: string, of: (element: Element) => T | null): T | null | undefined => {
    const element = known.get(oid)
    return element === undefined ? null : (of(element) ?? undefined)
  }
  const basicConstraints = read(OID.basicConstraints, basicConstraintsOf)
  const keyUsage = read(OID.keyUsage, keyUsageOf)
  const extendedKeyUsage = read(OID.extendedKeyUsage, extendedKeyUsageOf)
  const subjectAltName = read(OID.subjectAltName, filledSequence)
  const subjectKeyIdentifier = read(OID.subjectKeyIdentifier, octets)
  const authority = read(OID.authorityKeyIdentifier, (element) => (element.tag === TAG.sequence ? element : null))
  const noRevAvail = read(OID.noRevAvail, (element) => (element.tag === TAG.null ? true : null))
  if (basicConstraints === undefined || keyUsage === undefined || extendedKeyUsage === undefined) return null
  if (subjectAltName === undefined || subjectKeyIdentifier === undefined || authority === undefined) return null
  if (noRevAvail === undefined) return null
  return {
    basicConstraints,
    keyUsage,
    extendedKeyUsage,
    subjectAltName,
    subjectKeyIdentifier,
    authorityKeyIdentifier: childOf(authority, AUTHORITY_TAG.keyIdentifier)?.contents ?? null,
    authorityIssuer: directoryNameOf(childOf(authority, AUTHORITY_TAG.certIssuer)),
    authoritySerial: childOf(authority, AUTHORITY_TAG.certSerialNumber)?.contents ?? null,
    noRevAvail: noRevAvail ?? false,
    critical,
    unknownCritical,
  }
}

const isTrue = (element: Element | undefined): boolean => element?.tag === TAG.boolean && element.contents[0] === 0xff

const filledSequence = ({ tag, children }: Element): readonly Element[] | null =>
  tag === TAG.sequence && children.length > 0 ? children : null

/** The fields of AuthorityKeyIdentifier (§4.2.1.1). */
const AUTHORITY_TAG = { keyIdentifier: 0x80, certIssuer: 0xa1, certSerialNumber: 0x82 } as const

const childOf = (parent: Element | null, tag: number): Element | undefined =>
  parent?.children.find((child) => child.tag === tag)

const directoryNameOf = (names: Element | undefined): Bytes | null =>
  names?.children.find(({ tag }) => tag === DIRECTORY_NAME)?.children[0]?.bytes ?? null

const octets = ({ tag, contents }: Element): Bytes | null =>
  tag === TAG.octetString && contents.length > 0 ? contents : null

function basicConstraintsOf({ tag, children }: Element): { ca: boolean; pathLength: number | null } | null {
  if (tag !== TAG.sequence || children.length > 2) return null
  if (children.length === 0) return { ca: false, pathLength: null }
  const pathLength = children.length === 2 ? smallIntegerOf(children[1]) : null
  // A path length without CA:TRUE, or CA:FALSE written out, is no DER of this type.
  if (!isTrue(children[0]) || (children.length === 2 && pathLength === null)) return null
  return { ca: true, pathLength }
}

function keyUsageOf({ tag, contents }: Element): number | null {
  const [, first, second = 0] = contents
  // The extension has at least one bit set (§4.2.1.3); nine are defined.
  if (tag !== TAG.bitString || first === undefined || contents.length > 3) return null
  let usage = 0
  for (let bit = 0; bit < 9; bit++) {
    if ((((bit < 8 ? first : second) << (bit % 8)) & 0x80) !== 0) usage |= 1 << bit
  }
  return usage === 0 ? null : usage
}

function extendedKeyUsageOf(element: Element): readonly string[] | null {
  const purposes = filledSequence(element)?.map(oidOf)
  return purposes?.every((purpose) => purpose !== null) ? purposes : null
}
