// Reads DER (X.690) strictly: definite minimal lengths, bounded depth and count, no trailing bytes. Pure.
// It says whether bytes are well formed, and not why they are not.

import type { Bytes } from './bytes.ts'

/** One element of a well-formed tree. */
export interface Element {
  /** Identifier octet: class, constructed bit and number. */
  readonly tag: number
  /** Header and contents. */
  readonly bytes: Bytes
  readonly contents: Bytes
  /** The elements of a constructed element; empty for a primitive one. */
  readonly children: readonly Element[]
}

export const TAG = {
  boolean: 0x01,
  integer: 0x02,
  bitString: 0x03,
  octetString: 0x04,
  null: 0x05,
  oid: 0x06,
  enumerated: 0x0a,
  utf8String: 0x0c,
  printableString: 0x13,
  teletexString: 0x14,
  ia5String: 0x16,
  utcTime: 0x17,
  generalizedTime: 0x18,
  universalString: 0x1c,
  bmpString: 0x1e,
  sequence: 0x30,
  set: 0x31,
} as const

/** A CSR with an extension request needs 9; a certificate 8. */
const MAX_DEPTH = 16
/** A leaf of ours has about 60 elements. */
const MAX_ELEMENTS = 1024
/** Larger OID arcs have overflowed in readers (CVE-2025-66030). */
const MAX_ARC = 0xffff_ffff

/** The tree of the one element in `bytes`, or null where any part of them is not DER. */
export function parseDer(bytes: Bytes): Element | null {
  const top: Element[] = []
  const open = [{ end: bytes.length, children: top }]
  let count = 0
  let at = 0
  for (let inner = open.at(-1); inner !== undefined; inner = open.at(-1)) {
    if (at === inner.end) {
      open.pop()
      continue
    }
    const tag = bytes[at] as number
    const start = startOfContents(bytes, at, inner.end)
    if (start === null || ++count > MAX_ELEMENTS) return null
    const end = start + lengthBefore(bytes, at, start)
    const contents = bytes.subarray(start, end)
    if (end > inner.end || !isWellFormed(tag, contents)) return null
    const children: Element[] = []
    inner.children.push({ tag, bytes: bytes.subarray(at, end), contents, children })
    at = end
    if ((tag & 0x20) !== 0) {
      if (open.length > MAX_DEPTH) return null
      open.push({ end, children })
      at = start
    }
  }
  const [only = null] = top
  return top.length === 1 ? only : null
}

/** Where the contents of the element at `at` begin; null for a header that is cut off, indefinite or not minimal. */
function startOfContents(bytes: Bytes, at: number, end: number): number | null {
  if (at + 2 > end) return null
  // Tag numbers from 31 on take more octets; nothing that is read here has one.
  if (((bytes[at] as number) & 0x1f) === 0x1f) return null
  const first = bytes[at + 1] as number
  if (first < 0x80) return at + 2
  // Three length octets or more mean 64 KiB or more, which is over every bound on input.
  if (first === 0x81) return at + 3 <= end && (bytes[at + 2] as number) >= 0x80 ? at + 3 : null
  if (first === 0x82) return at + 4 <= end && bytes[at + 2] !== 0 ? at + 4 : null
  return null
}

function lengthBefore(bytes: Bytes, at: number, start: number): number {
  let length = bytes[start - 1] as number
  if (start - at === 4) length |= (bytes[start - 2] as number) << 8
  return length
}

/** Checks the contents of universal types. Other classes are checked where they are read. */
function isWellFormed(tag: number, contents: Bytes): boolean {
  if ((tag & 0xc0) !== 0) return true
  const first = contents[0]
  switch (tag) {
    case TAG.sequence:
    case TAG.set:
      return true
    case TAG.boolean:
      return contents.length === 1 && (first === 0x00 || first === 0xff)
    case TAG.integer:
    case TAG.enumerated:
      return first !== undefined && !hasSpareOctet(first, contents[1])
    case TAG.bitString:
      return first !== undefined && first < 8 && hasNoSpareBits(contents, first)
    case TAG.null:
      return contents.length === 0
    case TAG.oid:
      return readOid(contents) !== null
    case 0x00:
    case TAG.sequence & 0x1f:
    case TAG.set & 0x1f:
      // The end mark of indefinite lengths, and lists that claim to be primitive.
      return false
    default:
      // DER knows no constructed strings.
      return (tag & 0x20) === 0
  }
}

const hasSpareOctet = (first: number, second: number | undefined): boolean =>
  second !== undefined && ((first === 0x00 && second < 0x80) || (first === 0xff && second >= 0x80))

/** Whether there are `unused` bits at the end and all are zero. */
function hasNoSpareBits(contents: Bytes, unused: number): boolean {
  if (contents.length === 1) return unused === 0
  return ((contents.at(-1) as number) & ((1 << unused) - 1)) === 0
}

/** An OID's arcs with dots, or null where an arc is cut off, not minimal or past 32 bits. */
function readOid(contents: Bytes): string | null {
  let text = ''
  let arc = 0
  let fresh = true
  for (const octet of contents) {
    if (fresh && octet === 0x80) return null
    arc = arc * 128 + (octet & 0x7f)
    if (arc > MAX_ARC) return null
    fresh = octet < 0x80
    if (!fresh) continue
    // The first two arcs share one number (X.690 §8.19.4).
    const root = Math.min(2, Math.floor(arc / 40))
    text += text === '' ? `${root}.${arc - root * 40}` : `.${arc}`
    arc = 0
  }
  return fresh && text !== '' ? text : null
}

/** Whether `element` is a SEQUENCE, of `length` elements where that is given. */
export const isSequence = (element: Element | null | undefined, length?: number): element is Element =>
  element?.tag === TAG.sequence && (length === undefined || element.children.length === length)

/** The OID in dotted form, or null for any other element. */
export const oidOf = (element: Element | undefined): string | null =>
  element?.tag === TAG.oid ? readOid(element.contents) : null

/** The octets of a BIT STRING of whole octets, or null for any other element. */
export const bitsOf = (element: Element | undefined): Bytes | null =>
  element?.tag === TAG.bitString && element.contents[0] === 0 ? element.contents.subarray(1) : null

/** A non-negative INTEGER of at most 31 bits, or null. */
export function smallIntegerOf(element: Element | undefined): number | null {
  if (element?.tag !== TAG.integer || element.contents.length > 4 || (element.contents[0] as number) >= 0x80)
    return null
  let value = 0
  for (const octet of element.contents) value = value * 256 + octet
  return value
}
