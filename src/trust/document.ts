// The trust file as a tree whose every mistake has a place: bytes → YAML nodes, and the reading of single nodes.

import {
  isAlias,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  type Pair,
  parseAllDocuments,
  type YAMLMap,
} from 'yaml'
import { FIELDS, type FieldOf, type Place } from './fields.ts'

export interface Mistake {
  /** From 1. */
  readonly line: number
  readonly column: number
  readonly message: string
}

/** A file of a thousand clusters has a tenth of that. */
export const TRUST_FILE_BYTES = 512 * 1024

/** A field that is there: its node, and where to point for a fault of it. */
export interface Field {
  readonly path: string
  readonly node: Node | null
  readonly offset: number
}

export type Fields<P extends Place> = Partial<Record<FieldOf<P>, Field>>

/** Reads nodes and collects every mistake on the way; a value that was one is `null` from then on. */
export class Reader {
  readonly mistakes: Mistake[] = []
  readonly #lines: LineCounter

  constructor(lines: LineCounter) {
    this.#lines = lines
  }

  /** Notes a mistake at an offset of the text; gives null, for the value that there is none of. */
  fault(at: { readonly offset: number }, message: string): null {
    const { line, col } = this.#lines.linePos(at.offset)
    this.mistakes.push({ line: Math.max(1, line), column: Math.max(1, col), message })
    return null
  }

  /** The fields of a mapping; unknown ones are mistakes. Null: it is none. */
  fields<P extends Place>(place: P, field: Field): Fields<P> | null {
    const known: readonly string[] = FIELDS[place]
    const map = this.#plain(field)
    if (map === undefined) return null
    if (!isMap(map)) return this.fault(field, `${field.path} must be a mapping with ${known.join(', ')}`)
    const found: Partial<Record<string, Field>> = {}
    for (const pair of (map as YAMLMap<Node | null, Node | null>).items) {
      const name = this.#keyOf(pair, field)
      if (name === null) continue
      const path = field.path === 'the file' ? name : `${field.path}.${name}`
      if (!known.includes(name))
        this.fault(this.#offsetOf(pair.key, field), `unknown field ${quote(path)}; there is ${known.join(', ')}`)
      else found[name] = { path, node: pair.value, offset: (pair.value?.range ?? pair.key?.range)?.[0] ?? field.offset }
    }
    return found as Fields<P>
  }

  /** The entries of a list; `null` where it is none. */
  list(field: Field): Field[] | null {
    const node = this.#plain(field)
    if (node === undefined) return null
    if (!isSeq(node)) return this.fault(field, `${field.path} must be a list`)
    return node.items.map((item, i) => {
      const entry = item as Node | null
      return { path: `${field.path}[${i}]`, node: entry, offset: entry?.range?.[0] ?? field.offset }
    })
  }

  /** A string, as it stands. A number or word that YAML reads as something else must be quoted. */
  text(field: Field): string | null {
    const node = this.#plain(field)
    if (node === undefined) return null
    if (!isScalar(node)) return this.fault(field, `${field.path} must be a single value`)
    const { value } = node
    if (value === '' || value === null)
      return this.fault(field, `${field.path} is empty: give a value or leave the field out`)
    if (typeof value !== 'string')
      return this.fault(field, `${field.path} must be text: put ${node.source ?? String(value)} in quotes`)
    return value
  }

  /** One value or a list of them. */
  texts(field: Field): (string | null)[] | null {
    return isSeq(field.node) ? (this.list(field)?.map((entry) => this.text(entry)) ?? null) : [this.text(field)]
  }

  /** A string that `allowed` takes. */
  checked(field: Field | undefined, allowed: (text: string) => boolean, what: string): string | null {
    if (field === undefined) return null
    const text = this.text(field)
    if (text === null || allowed(text)) return text
    return this.fault(field, `${field.path} ${quote(text)} must be ${what}`)
  }

  /** The node, once it is known to have no tag, anchor or alias; undefined where it has. */
  #plain(field: Field): Node | null | undefined {
    const { node } = field
    if (node === null || (isScalar(node) && node.value === null)) {
      this.fault(field, `${field.path} is empty: give a value or leave the field out`)
      return undefined
    }
    if (isAlias(node) || ('anchor' in node && node.anchor !== undefined)) {
      this.fault(field, `${field.path}: anchors and aliases are not allowed, write the value out`)
      return undefined
    }
    if (node.tag !== undefined) {
      this.fault(field, `${field.path}: YAML tags are not allowed`)
      return undefined
    }
    return node
  }

  #keyOf(pair: Pair<Node | null, Node | null>, field: Field): string | null {
    const { key } = pair
    if (isScalar(key) && typeof key.value === 'string' && key.tag === undefined && key.anchor === undefined)
      return key.value
    return this.fault(this.#offsetOf(key, field), `${field.path}: a field name must be plain text`)
  }

  #offsetOf(node: Node | null, field: Field): { offset: number } {
    return { offset: node?.range?.[0] ?? field.offset }
  }
}

export interface Opened {
  readonly reader: Reader
  /** Null: the file could not be read as YAML at all; the mistakes say why. */
  readonly root: Field | null
}

/** Reads the bytes of a trust file as one YAML 1.2 document. */
export function openDocument(bytes: Uint8Array): Opened {
  const lines = new LineCounter()
  const reader = new Reader(lines)
  const text = textOf(bytes)
  if (typeof text !== 'string') {
    reader.fault({ offset: 0 }, text.fault)
    return { reader, root: null }
  }
  const documents = parseAllDocuments(text, {
    lineCounter: lines,
    version: '1.2',
    schema: 'core',
    merge: false,
    uniqueKeys: true,
    prettyErrors: false,
  })
  const [document, second] = 'empty' in documents ? [] : documents
  if (second !== undefined)
    reader.fault({ offset: second.range[0] }, 'a second document begins here: one file, one document')
  const wrong = document === undefined ? [] : [...document.errors, ...document.warnings]
  for (const error of wrong) reader.fault({ offset: error.pos[0] }, oneLine(error.message))
  if (document === undefined || document.contents === null) {
    if (reader.mistakes.length === 0)
      reader.fault({ offset: 0 }, 'the file is empty: an empty mapping, {}, trusts nobody on purpose')
    return { reader, root: null }
  }
  if (wrong.some(({ name }) => name === 'YAMLParseError')) return { reader, root: null }
  return { reader, root: { path: 'the file', node: document.contents, offset: document.contents.range?.[0] ?? 0 } }
}

function textOf(bytes: Uint8Array): string | { readonly fault: string } {
  if (bytes.length > TRUST_FILE_BYTES)
    return { fault: `the file has ${bytes.length} bytes; at most ${TRUST_FILE_BYTES} are read` }
  try {
    // A byte order mark is dropped here.
    const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes)
    return text.includes('\u0000') ? { fault: 'the file holds NUL characters: save it as UTF-8' } : text
  } catch {
    return { fault: 'the file is not UTF-8: save it as UTF-8' }
  }
}

const oneLine = (message: string): string => message.split('\n', 1)[0]?.trim() ?? ''

export const quote = (text: string): string => JSON.stringify(text.length > 100 ? `${text.slice(0, 100)}…` : text)
