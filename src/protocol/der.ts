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
    if (end > inner.end || !isWellFormed(tag, bytes, start, end)) return null
    const isConstructed = (tag & 0x20) !== 0
    const children: Element[] = isConstructed ? [] : NONE
    inner.children.push(new Slice(tag, children, bytes, at, start, end))
    at = end
    if (isConstructed) {
      if (open.length > MAX_DEPTH) return null
      open.push({ end, children })
      at = start
    }
  }
  const [only = null] = top
  return top.length === 1 ? only : null
}

/** The children of every primitive element. */
const NONE: never[] = []

/** An element as a place in the input. A view costs more than all else of an element, so it is made where it is read. */
class Slice implements Element {
  readonly tag: number
  readonly children: readonly Element[]
  readonly #input: Bytes
  readonly #at: number
  readonly #start: number
  readonly #end: number

  constructor(tag: number, children: readonly Element[], input: Bytes, at: number, start: number, end: number) {
    this.tag = tag
    this.children = children
    this.#input = input
    this.#at = at
    this.#start = start
    this.#end = end
  }

  get bytes(): Bytes {
    return this.#input.subarray(this.#at, this.#end)
  }

  get contents(): Bytes {
    return this.#input.subarray(this.#start, this.#end)
  }
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
function isWellFormed(tag: number, bytes: Bytes, start: number, end: number): boolean {
  if ((tag & 0xc0) !== 0) return true
  const length = end - start
  const first = bytes[start] as number
  switch (tag) {
    case TAG.sequence:
    case TAG.set:
      return true
    case TAG.boolean:
      return length === 1 && (first === 0x00 || first === 0xff)
    case TAG.integer:
    case TAG.enumerated:
      return length === 1 || (length > 1 && !isSpare(first, bytes[start + 1] as number))
    case TAG.bitString:
      // The first octet says how many bits at the end are unused. They are zero.
      return length === 1
        ? first === 0
        : length > 1 && first < 8 && ((bytes[end - 1] as number) & ((1 << first) - 1)) === 0
    case TAG.null:
      return length === 0
    case TAG.oid:
      return isOid(bytes, start, end)
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

/** Whether an INTEGER has the same value without its first octet. */
const isSpare = (first: number, second: number): boolean =>
  (first === 0x00 && second < 0x80) || (first === 0xff && second >= 0x80)

/** Whether there is an arc, and every arc is whole, minimal and at most 32 bits. */
function isOid(bytes: Bytes, start: number, end: number): boolean {
  let arc = 0
  let isWhole = false
  for (let at = start; at < end; at++) {
    const octet = bytes[at] as number
    if (arc === 0 && octet === 0x80) return false
    arc = arc * 128 + (octet & 0x7f)
    if (arc > MAX_ARC) return false
    isWhole = octet < 0x80
    if (isWhole) arc = 0
  }
  return isWhole
}

/** The arcs of a well-formed OID with dots. */
function formatOid(contents: Bytes): string {
  let text = ''
  let arc = 0
  for (let at = 0; at < contents.length; at++) {
    const octet = contents[at] as number
    arc = arc * 128 + (octet & 0x7f)
    if (octet >= 0x80) continue
    // The first two arcs share one number (X.690 §8.19.4).
    const root = Math.min(2, Math.floor(arc / 40))
    text += text === '' ? `${root}.${arc - root * 40}` : `.${arc}`
    arc = 0
  }
  return text
}

/** Whether `element` is a SEQUENCE, of `length` elements where that is given. */
export const isSequence = (element: Element | null | undefined, length?: number): element is Element =>
  element?.tag === TAG.sequence && (length === undefined || element.children.length === length)

/** The OID in dotted form, or null for any other element. */
export const oidOf = (element: Element | undefined): string | null =>
  element?.tag === TAG.oid ? formatOid(element.contents) : null

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
