// Reads the trust file by its declarations: checks each value by kind and grammar, and words every mistake.

import { printable, quote } from '../protocol/characters.ts'
import type { Result } from '../protocol/result.ts'
import type { Seconds } from '../protocol/time.ts'
import type {
  DurationValue,
  FileValue,
  Given,
  Grammar,
  IsCertificate,
  ListValue,
  NumberValue,
  ObjectValue,
  Place,
  Value,
  ValueOf,
} from './declaration.ts'
import { type Field, isEmptyField, isList, rawText, type TrustDocument, unquoted } from './document.ts'
import { durationOf, parseDuration } from './duration.ts'

/** Reads a file that the trust file names, relative to it. The error follows the path in a sentence. */
export type ReadFile = (path: string) => Result<Uint8Array, string>

/** What the compiler leaves to its caller. */
export interface Outside {
  readonly readFile: ReadFile
  readonly isCertificate: IsCertificate
}

type Reading = Record<string, Given<unknown> | undefined>

export class Reader {
  readonly #document: TrustDocument
  readonly #outside: Outside

  constructor(document: TrustDocument, outside: Outside) {
    this.#document = document
    this.#outside = outside
  }

  /** Adds a mistake. Returns null, to stand for the value. */
  fault(at: Place, message: string): null {
    return this.#document.fault(at, message)
  }

  /** Reads `field` by its declaration. */
  read<V extends Value>(value: V, field: Field): Given<ValueOf<V>> {
    // `ValueOf` says of each kind what the methods below make of it.
    return this.#read(value, field) as Given<ValueOf<V>>
  }

  #read(value: Value, field: Field): Given<unknown> {
    return { path: field.path, offset: field.offset, raw: rawText(field), value: this.#valueOf(value, field) }
  }

  #valueOf(value: Value, field: Field): unknown {
    switch (value.kind) {
      case 'text':
        return this.#text(field, value.grammar)
      case 'choice':
        return this.#text(field, grammarOfChoice(value.of))
      case 'duration':
        return this.#duration(field, value)
      case 'number':
        return this.#number(field, value)
      case 'file':
        return this.#file(field, value)
      case 'list':
        return this.#list(field, value)
      case 'object':
        return this.#object(field, value)
    }
  }

  #text(field: Field, grammar: Grammar): string | null {
    const bare = unquoted(field)
    // To put it in quotes would only lead to this mistake.
    if (bare !== null && !grammar.allowed(bare))
      return this.fault(field, `${field.path} ${printable(bare)} ${faultOf(grammar, bare)}`)
    const text = this.#document.text(field)
    if (text === null || grammar.allowed(text)) return text
    return this.fault(field, `${field.path} ${quote(text)} ${faultOf(grammar, text)}`)
  }

  #duration(field: Field, { least, most, or }: DurationValue): Seconds | string | null {
    const within = (text: string): Seconds | null => {
      const duration = parseDuration(text)
      return duration !== null && duration >= durationOf(least) && duration <= durationOf(most) ? duration : null
    }
    const bare = unquoted(field)
    if (bare !== null && within(`${bare}s`) !== null)
      return this.fault(field, `${field.path} ${bare} has no unit: write ${bare}s`)
    const text = this.#text(field, {
      what: `${or === undefined ? '' : `\`${or}\`, or `}a duration from ${least} to ${most}, written as 600s, 10m or 1h30m`,
      allowed: (given) => given === or || within(given) !== null,
      schema: {},
    })
    return text === null || text === or ? text : within(text)
  }

  #number(field: Field, range: NumberValue): number | null {
    const bare = unquoted(field)
    const number = bare === null ? null : wholeNumber(bare, range)
    if (number !== null) return number
    if (bare !== null) return this.fault(field, `${field.path} ${printable(bare)} must be ${whatOf(range)}`)
    const text = this.#document.text(field)
    return text === null ? null : this.fault(field, `${field.path} ${quote(text)} must be ${whatOf(range)}`)
  }

  #file(field: Field, { parse }: FileValue): unknown {
    const path = this.#document.text(field)
    if (path === null) return null
    const named = `${field.path} ${quote(path)}`
    const content = this.#outside.readFile(path)
    const parsed = content.ok ? parse(content.value, this.#outside.isCertificate) : content
    if (!parsed.ok) return this.fault(field, `${named} ${parsed.error}`)
    this.#document.notes.push(...parsed.value.notes.map((note) => `${named}: ${note}`))
    return parsed.value.value
  }

  #list(field: Field, { of, orOne }: ListValue): readonly Given<unknown>[] | null {
    if (orOne && !isList(field)) return [this.#read(of, field)]
    const entries = this.#document.list(field)
    if (orOne && entries?.length === 0)
      return this.fault(field, `${field.path} is empty: give a value or leave the field out`)
    return entries?.map((entry) => this.#read(of, entry)) ?? null
  }

  #object(field: Field, object: ObjectValue): Reading | null {
    const found = this.#document.fields(field, Object.keys(object.fields))
    if (found === null) return null
    const read = this.#fields(field, object, found)
    this.#holdTogether(field, object, read)
    return read
  }

  #fields(parent: Place, { fields }: ObjectValue, found: ReadonlyMap<string, Field>): Reading {
    const read = Object.entries(fields).map(([name, value]) => {
      const field = found.get(name)
      const isThere = field !== undefined && !(value.emptyable && isEmptyField(field))
      return [name, isThere ? this.#read(value, field) : this.#absent(parent, name, value)]
    })
    return Object.fromEntries(read)
  }

  #absent({ path, offset }: Place, name: string, value: Value): Given<unknown> | undefined {
    if (value.required) {
      this.fault({ path, offset }, `${path} has no ${name}: it must be ${whatOf(value)}`)
      return { path, offset, raw: null, value: null }
    }
    return value.default === undefined ? undefined : this.#standIn({ path, offset }, value, value.default)
  }

  /** A default, as if it stood in the file. */
  #standIn({ path, offset }: Place, value: Value, text: NonNullable<Value['default']>): Given<unknown> {
    const given = (read: unknown) => ({ path, offset, raw: null, value: read })
    if (value.kind === 'object') return given(this.#fields({ path, offset }, value, new Map()))
    if (value.kind === 'list' && Array.isArray(text))
      return given(text.map((one) => this.#standIn({ path, offset }, value.of, one)))
    return given(value.kind === 'duration' && text !== value.or ? durationOf(String(text)) : text)
  }

  /** Checks the rules of an object on its fields together. */
  #holdTogether(parent: Place, { oneOf, together, exclusive }: ObjectValue, read: Reading): void {
    const there = (names: readonly string[]) => names.map((name) => read[name]).filter((given) => given !== undefined)
    if (oneOf !== undefined) {
      const [first, second] = there(oneOf)
      if (first === undefined) this.fault(parent, `${parent.path} needs either ${alternatives(oneOf)}`)
      if (second !== undefined)
        this.fault(second, `${parent.path} takes either ${alternatives(oneOf)}: only one of them`)
    }
    if (together !== undefined) {
      const [alone, other] = there(together)
      if (alone !== undefined && other === undefined)
        this.fault(alone, `${alone.path}: ${together.join(' and ')} come together or not at all`)
    }
    if (exclusive !== undefined) {
      const [first, second] = there(exclusive)
      if (first !== undefined && second !== undefined)
        this.fault(second, `${second.path} and ${exclusive[0]} exclude each other: give one, not both`)
    }
  }
}

/** The valid values of a list. */
export const valuesOf = <T>(given: Given<readonly Given<T>[]> | undefined): T[] =>
  (given?.value ?? []).flatMap(({ value }) => (value === null ? [] : [value]))

const faultOf = ({ fault, what }: Grammar, text: string): string => fault?.(text) ?? `must be ${what}`

const grammarOfChoice = (choices: readonly string[]): Grammar => ({
  what: `${choices.map((choice) => `\`${choice}\``).join(' or ')}${choices.length === 1 ? ', or be left out' : ''}`,
  allowed: (text) => choices.includes(text),
  schema: {},
})

function whatOf(value: Value): string {
  switch (value.kind) {
    case 'text':
      return value.grammar.what
    case 'choice':
      return grammarOfChoice(value.of).what
    case 'duration':
      return 'a duration'
    case 'number':
      return `a whole number from ${value.least} to ${value.most}, without quotes`
    case 'file':
      return 'the path of a file'
    case 'list':
      return 'a list'
    case 'object':
      return 'a mapping'
  }
}

/** The number that the text stands for, in decimal digits alone; null where it is none in the range. */
function wholeNumber(text: string, { least, most }: NumberValue): number | null {
  const number = Number(text)
  return String(number) === text && Number.isInteger(number) && number >= least && number <= most ? number : null
}

/** `a, b or c`. */
const alternatives = (names: readonly string[]): string =>
  names.length === 1 ? names.join() : `${names.slice(0, -1).join(', ')} or ${names.at(-1)}`
