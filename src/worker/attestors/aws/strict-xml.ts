// The XML that STS writes, and no other: elements and text. Pure.
// What makes XML dangerous (DTD, entities, comments, CDATA, processing instructions, attributes, prefixes, text
// between elements) is not skipped or resolved but refused, so two readers cannot see two documents.

import { everyCharacter, isLetterOrDigit } from '../../../protocol/characters.ts'

export interface XmlElement {
  readonly name: string
  readonly children: readonly XmlElement[]
  /** As it stands, white space too; empty where there are children. */
  readonly text: string
}

export type XmlReading =
  | { readonly ok: true; readonly root: XmlElement }
  /** `truncated`: everything up to the end was right, and then it stopped. */
  | { readonly ok: false; readonly fault: 'malformed' | 'truncated' }

/** Response, result, field. */
const DEEPEST = 3

/** Reads one document whose root element has this name and declares this namespace as the default one. */
export function readXml(text: string, rootName: string, namespace: string): XmlReading {
  const cursor: Cursor = { text, at: 0 }
  skipDeclaration(cursor)
  skipSpace(cursor)
  if (!take(cursor, `<${rootName} xmlns="${namespace}">`)) return { ok: false, fault: 'malformed' }
  const root = readContent(cursor, rootName, 1)
  if (root === null) return { ok: false, fault: cursor.at === text.length ? 'truncated' : 'malformed' }
  skipSpace(cursor)
  return cursor.at === text.length ? { ok: true, root } : { ok: false, fault: 'malformed' }
}

interface Cursor {
  readonly text: string
  /** How far the text is right; its end where a fault is that there is no more. */
  at: number
}

/** What stands between `<name>` and `</name>`, and the latter: either text or elements. */
function readContent(cursor: Cursor, name: string, depth: number): XmlElement | null {
  const children: XmlElement[] = []
  const start = cursor.at
  skipText(cursor)
  const text = cursor.text.slice(start, cursor.at)
  const end = `</${name}>`
  while (!take(cursor, end)) {
    if (cutOff(cursor, end)) cursor.at = cursor.text.length
    if (cursor.at === cursor.text.length || depth === DEEPEST || !isSpace(text)) return null
    const child = readElement(cursor, depth + 1)
    if (child === null) return null
    children.push(child)
    skipSpace(cursor)
  }
  return { name, children, text: children.length === 0 ? text : '' }
}

function readElement(cursor: Cursor, depth: number): XmlElement | null {
  if (!take(cursor, '<')) return null
  const start = cursor.at
  while (cursor.at < cursor.text.length && isLetterOrDigit(cursor.text[cursor.at] as string)) cursor.at++
  const name = cursor.text.slice(start, cursor.at)
  return name !== '' && take(cursor, '>') ? readContent(cursor, name, depth) : null
}

/** `<?xml version="1.0"?>`, with UTF-8 named or not; anything else stays and is refused as what it is. */
function skipDeclaration(cursor: Cursor): void {
  const declarations = ['', ' encoding="UTF-8"', ' encoding="utf-8"'].map((e) => `<?xml version="1.0"${e}?>`)
  declarations.some((declaration) => take(cursor, declaration))
}

function skipText(cursor: Cursor): void {
  while (cursor.at < cursor.text.length && !'<>&'.includes(cursor.text[cursor.at] as string)) cursor.at++
}

function skipSpace(cursor: Cursor): void {
  while (cursor.at < cursor.text.length && isSpace(cursor.text[cursor.at] as string)) cursor.at++
}

const cutOff = ({ text, at }: Cursor, expected: string): boolean => expected.startsWith(text.slice(at))

function take(cursor: Cursor, expected: string): boolean {
  if (!cursor.text.startsWith(expected, cursor.at)) return false
  cursor.at += expected.length
  return true
}

const isSpace = (text: string): boolean =>
  everyCharacter(text, (c) => c === ' ' || c === '\n' || c === '\r' || c === '\t')
