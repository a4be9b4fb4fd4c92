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
  visit,
  type YAMLError,
  type YAMLMap,
} from 'yaml'
import { printable, quote } from '../protocol/labels.ts'
import { FIELDS, type FieldOf, type Place } from './fields.ts'
import { syntaxFault } from './syntax.ts'

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

  /** The fields of a mapping; unknown ones and those that stand twice are mistakes. Null: it is none. */
  fields<P extends Place>(place: P, field: Field): Fields<P> | null {
    const known: readonly string[] = FIELDS[place]
    const map = this.#plain(field)
    if (map === undefined) return null
    if (!isMap(map)) return this.fault(field, `${field.path} must be a mapping with ${known.join(', ')}`)
    const found = new Map<string, Field>()
    for (const pair of (map as YAMLMap<Node | null, Node | null>).items) {
      const name = this.#keyOf(pair, field)
      if (name === null) continue
      const path = field.path === 'the file' ? name : `${field.path}.${name}`
      if (!known.includes(name))
        this.fault(this.#offsetOf(pair.key, field), `unknown field ${quote(path)}; there is ${known.join(', ')}`)
      else {
        if (found.has(name)) this.fault(this.#offsetOf(pair.key, field), `the field ${quote(path)} stands twice`)
        found.set(name, { path, node: pair.value, offset: this.#offsetOf(pair.value ?? pair.key, field).offset })
      }
    }
    // Every name in it is one of the place's.
    return Object.fromEntries(found) as Fields<P>
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
    if (typeof value !== 'string')
      return this.fault(field, `${field.path} must be text: put ${node.source ?? String(value)} in quotes`)
    return value
  }

  /** The entries of a list, or the one value that stands in its place. */
  oneOrMore(field: Field): Field[] | null {
    return isSeq(field.node) ? this.list(field) : [field]
  }

  /** The field, or null where it is left out or empty. */
  present(field: Field | undefined): Field | null {
    return field === undefined || isEmpty(field.node) ? null : field
  }

  /** A string that `allowed` takes. */
  checked(field: Field | undefined, allowed: (text: string) => boolean, what: string): string | null {
    if (field === undefined) return null
    const unquoted = this.unquoted(field)
    // Quotes would only lead to the next mistake.
    if (unquoted !== null && !allowed(unquoted))
      return this.fault(field, `${field.path} ${printable(unquoted)} must be ${what}`)
    const text = this.text(field)
    if (text === null || allowed(text)) return text
    return this.fault(field, `${field.path} ${quote(text)} must be ${what}`)
  }

  /** A number or word as it stands, that YAML reads as something else than text. */
  unquoted({ node }: Field): string | null {
    if (!isScalar(node) || isEmpty(node) || typeof node.value === 'string' || adornmentOf(node) !== null) return null
    return node.source ?? String(node.value)
  }

  /** The same of a field that must be there. */
  required(
    parent: Field,
    name: string,
    field: Field | undefined,
    allowed: (text: string) => boolean,
    what: string,
  ): string | null {
    if (field === undefined) return this.fault(parent, `${parent.path} has no ${name}: it must be ${what}`)
    return this.checked(field, allowed, what)
  }

  /** The node; undefined where it is empty, or has what `openDocument` has found fault with already. */
  #plain(field: Field): Node | undefined {
    const { node } = field
    if (node !== null && adornmentOf(node) !== null) return undefined
    if (node !== null && !isEmpty(node)) return node
    this.fault(field, `${field.path} is empty: give a value or leave the field out`)
    return undefined
  }

  #keyOf(pair: Pair<Node | null, Node | null>, field: Field): string | null {
    const { key } = pair
    if (key !== null && adornmentOf(key) !== null) return null
    if (isScalar(key) && typeof key.value === 'string') return key.value
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
    // The reader of fields sees to it, with their names.
    uniqueKeys: false,
    prettyErrors: false,
  })
  const [document, second] = 'empty' in documents ? [] : documents
  if (document === undefined || document.contents === null) {
    reader.fault({ offset: 0 }, 'the file is empty: an empty mapping, {}, trusts nobody on purpose')
    return { reader, root: null }
  }
  if (second !== undefined)
    reader.fault({ offset: second.range[0] }, 'a second document begins here: one file, one document')
  if (document.directives.yaml.version !== '1.2') reader.fault({ offset: 0 }, '%YAML: the file is read as YAML 1.2')
  // A parser that ran out of stack has said so once for each level.
  const tooDeep = document.errors.find(({ code }) => code === 'RESOURCE_EXHAUSTION')
  const errors = tooDeep === undefined ? document.errors.filter(isOfSyntax) : [tooDeep]
  const told = new Set<number>()
  for (const error of errors) {
    // What follows on a line that is not understood says nothing more.
    const { line } = lines.linePos(error.pos[0])
    if (!told.has(line)) reader.fault({ offset: error.pos[0] }, syntaxFault(error, text))
    told.add(line)
  }
  if (errors.length > 0) return { reader, root: null }
  visit(document, {
    Node: (_, node) => {
      const fault = adornmentOf(node)
      if (fault !== null) reader.fault({ offset: node.range?.[0] ?? 0 }, fault)
    },
  })
  return { reader, root: { path: 'the file', node: document.contents, offset: document.contents.range?.[0] ?? 0 } }
}

/** The text of a field, or of a field in it, as it stands, right or not; null where there is none. */
export function rawText(field: Field | undefined, name?: string): string | null {
  const node = name === undefined ? field?.node : isMap(field?.node) ? field.node.get(name, true) : null
  return isScalar(node) && typeof node.value === 'string' ? node.value : null
}

/** A tag that does not resolve is no fault of syntax: all tags are refused, with the other adornments. */
const isOfSyntax = ({ code }: YAMLError): boolean => code !== 'TAG_RESOLVE_FAILED'

/** What YAML allows beside a value and the trust file does not, or null: what a reviewer sees is what is meant. */
function adornmentOf(node: Node): string | null {
  if (isAlias(node)) return `*${printable(node.source)}: anchors and aliases are not allowed, write the value out`
  if ('anchor' in node && node.anchor !== undefined)
    return `&${printable(node.anchor)}: anchors and aliases are not allowed, write the value out`
  return node.tag === undefined
    ? null
    : `${quote(node.tag.replace('tag:yaml.org,2002:', '!!'))}: YAML tags are not allowed`
}

const isEmpty = (node: Node | null): boolean =>
  node === null || (isScalar(node) && (node.value === null || node.value === ''))

function textOf(bytes: Uint8Array): string | { readonly fault: string } {
  if (bytes.length > TRUST_FILE_BYTES) return { fault: `the file has more than ${TRUST_FILE_BYTES} bytes` }
  try {
    // A byte order mark is dropped here.
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: false }).decode(bytes)
    return text.includes('\u0000') ? { fault: 'the file holds NUL characters: save it as UTF-8' } : text
  } catch {
    return { fault: 'the file is not UTF-8: save it as UTF-8' }
  }
}
