// Parses the XML that STS writes: elements and text alone. Pure.
// DTDs, entities, comments, CDATA, processing instructions, attributes, prefixes and text between elements are refused,
// so that no other parser can read another document.

import { everyCharacter, isLetterOrDigit } from '../../../protocol/characters.ts'
import { err, ok, type Result } from '../../../protocol/result.ts'

export interface XmlElement {
  readonly name: string
  readonly children: readonly XmlElement[]
  /** With its white space; empty where there are children. */
  readonly text: string
}

/** `truncated`: correct up to its end, but incomplete. */
export type XmlFault = 'malformed' | 'truncated'

/** Response, result, field. */
const DEEPEST = 3

/** Parses one document whose root element has this name and this default namespace. */
export function readXml(text: string, rootName: string, namespace: string): Result<XmlElement, XmlFault> {
  const cursor: Cursor = { text, at: 0 }
  skipDeclaration(cursor)
  skipSpace(cursor)
  if (!take(cursor, `<${rootName} xmlns="${namespace}">`)) return err('malformed')
  const root = readContent(cursor, rootName, 1)
  if (root === null) return err(cursor.at === text.length ? 'truncated' : 'malformed')
  skipSpace(cursor)
  return cursor.at === text.length ? ok(root) : err('malformed')
}

interface Cursor {
  readonly text: string
  /** How far the text is correct; at its end where it is truncated. */
  at: number
}

/** Reads text or elements, and the end tag. */
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

/** `<?xml version="1.0"?>`, with or without UTF-8 as its encoding. Another declaration is not skipped, and so refused. */
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
