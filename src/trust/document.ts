// Parses the YAML of the trust file: nodes with their places, and the mistakes found in them.

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
import { printable, quote } from '../protocol/characters.ts'
import { err, ok, type Result } from '../protocol/result.ts'
import type { Place } from './declaration.ts'
import { syntaxFault } from './syntax.ts'

export interface Mistake {
  /** From 1. */
  readonly line: number
  readonly column: number
  readonly message: string
}

/** Ten times the size of a file with a thousand clusters. */
export const TRUST_FILE_BYTES = 512 * 1024

/** A field that is there, and its node. */
export interface Field extends Place {
  readonly node: Node | null
}

/** The path of the file as a whole; the paths of its fields begin with their names. */
const ROOT = 'the file'

/** Reads nodes of a YAML document and collects the mistakes. What is a mistake is read as null. */
export class TrustDocument {
  readonly mistakes: Mistake[] = []
  /** What is valid but worth a look, one sentence each. */
  readonly notes: string[] = []
  readonly #lines: LineCounter

  constructor(lines: LineCounter) {
    this.#lines = lines
  }

  /** Adds a mistake at an offset of the text. Returns null, to stand for the value. */
  fault(at: { readonly offset: number }, message: string): null {
    const { line, col } = this.#lines.linePos(at.offset)
    this.mistakes.push({ line: Math.max(1, line), column: Math.max(1, col), message })
    return null
  }

  /** The fields of a mapping; unknown and duplicate ones are mistakes. Null where it is not a mapping. */
  fields(field: Field, known: readonly string[]): ReadonlyMap<string, Field> | null {
    const map = this.#plain(field)
    if (map === undefined) return null
    if (!isMap(map)) return this.fault(field, `${field.path} must be a mapping with ${known.join(', ')}`)
    const found = new Map<string, Field>()
    for (const pair of (map as YAMLMap<Node | null, Node | null>).items) {
      const name = this.#keyOf(pair, field)
      if (name === null) continue
      const path = field.path === ROOT ? name : `${field.path}.${name}`
      if (!known.includes(name))
        this.fault(offsetOf(pair.key, field), `unknown field ${quote(path)}; there is ${known.join(', ')}`)
      else {
        if (found.has(name)) this.fault(offsetOf(pair.key, field), `the field ${quote(path)} stands twice`)
        found.set(name, { path, node: pair.value, offset: offsetOf(pair.value ?? pair.key, field).offset })
      }
    }
    return found
  }

  /** The entries of a list; null where it is not a list. */
  list(field: Field): readonly Field[] | null {
    const node = this.#plain(field)
    if (node === undefined) return null
    if (!isSeq(node)) return this.fault(field, `${field.path} must be a list`)
    return node.items.map((item, i) => {
      const entry = item as Node | null
      return { path: `${field.path}[${i}]`, node: entry, offset: offsetOf(entry, field).offset }
    })
  }

  /** A string. A number or word that YAML reads as something else must be quoted. */
  text(field: Field): string | null {
    const node = this.#plain(field)
    if (node === undefined) return null
    if (!isScalar(node)) return this.fault(field, `${field.path} must be a single value`)
    const { value } = node
    if (typeof value !== 'string')
      return this.fault(field, `${field.path} must be text: put ${node.source ?? String(value)} in quotes`)
    return value
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
    return this.fault(offsetOf(key, field), `${field.path}: a field name must be plain text`)
  }
}

const offsetOf = (node: Node | null, field: Field) => ({ offset: node?.range?.[0] ?? field.offset })

/** The source of a number or word that YAML does not read as text; null for anything else. */
export function unquoted({ node }: Field): string | null {
  if (!isScalar(node) || isEmpty(node) || typeof node.value === 'string' || adornmentOf(node) !== null) return null
  return node.source ?? String(node.value)
}

/** The text of a field, valid or not; null where there is none. */
export const rawText = ({ node }: Field): string | null =>
  isScalar(node) && typeof node.value === 'string' ? node.value : null

export const isList = ({ node }: Field): boolean => isSeq(node)

/** Whether the value is `""`, `~` or missing. */
export const isEmptyField = ({ node }: Field): boolean => isEmpty(node)

export interface Opened {
  readonly document: TrustDocument
  /** Null: the file could not be read as YAML at all; the mistakes say why. */
  readonly root: Field | null
}

/** Reads the bytes of a trust file as one YAML 1.2 document. */
export function openDocument(bytes: Uint8Array): Opened {
  const lines = new LineCounter()
  const opened = new TrustDocument(lines)
  const decoded = textOf(bytes)
  if (!decoded.ok) {
    opened.fault({ offset: 0 }, decoded.error)
    return { document: opened, root: null }
  }
  const text = decoded.value
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
    opened.fault({ offset: 0 }, 'the file is empty: an empty mapping, {}, trusts nobody on purpose')
    return { document: opened, root: null }
  }
  if (second !== undefined)
    opened.fault({ offset: second.range[0] }, 'a second document begins here: one file, one document')
  if (document.directives.yaml.version !== '1.2') opened.fault({ offset: 0 }, '%YAML: the file is read as YAML 1.2')
  // A parser that runs out of stack reports it once for each level.
  const tooDeep = document.errors.find(({ code }) => code === 'RESOURCE_EXHAUSTION')
  const errors = tooDeep === undefined ? document.errors.filter(isOfSyntax) : [tooDeep]
  const reported = new Set<number>()
  for (const error of errors) {
    // What follows on a line that is not understood says nothing more.
    const { line } = lines.linePos(error.pos[0])
    if (!reported.has(line)) opened.fault({ offset: error.pos[0] }, syntaxFault(error, text))
    reported.add(line)
  }
  if (errors.length > 0) return { document: opened, root: null }
  visit(document, {
    Node: (_, node) => {
      const fault = adornmentOf(node)
      if (fault !== null) opened.fault({ offset: node.range?.[0] ?? 0 }, fault)
    },
  })
  return {
    document: opened,
    root: { path: ROOT, node: document.contents, offset: document.contents.range?.[0] ?? 0 },
  }
}

/** An unknown tag is no fault of syntax: all tags are refused, with anchors and aliases. */
const isOfSyntax = ({ code }: YAMLError): boolean => code !== 'TAG_RESOLVE_FAILED'

/** The fault of an anchor, alias or tag, none of which the trust file allows; null for none. */
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

function textOf(bytes: Uint8Array): Result<string, string> {
  if (bytes.length > TRUST_FILE_BYTES) return err(`the file has more than ${TRUST_FILE_BYTES} bytes`)
  try {
    // A byte order mark is dropped here.
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: false }).decode(bytes)
    return text.includes('\u0000') ? err('the file holds NUL characters: save it as UTF-8') : ok(text)
  } catch {
    return err('the file is not UTF-8: save it as UTF-8')
  }
}
