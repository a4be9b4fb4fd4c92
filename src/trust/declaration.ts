// The types of declarations: plain data that says once what each field of the trust file may hold. The reader, its
// messages, the JSON Schema and the types of what was read follow from them. Types alone.

import type { Result } from '../protocol/result.ts'
import type { Seconds } from '../protocol/time.ts'

/** What a text may be. */
export interface Grammar {
  /** To follow "must be" in a message. */
  readonly what: string
  readonly allowed: (text: string) => boolean
  /** The exact fault, to follow the value in a message, where `what` would say too little. */
  readonly fault?: (text: string) => string | null
  /** Keywords of JSON Schema that come close. The compiler decides. */
  readonly schema: { readonly pattern?: string; readonly maxLength?: number }
}

interface About {
  /** For editors. */
  readonly description?: string
  readonly required?: true
  /** As it would be written in the file. */
  readonly default?: Default
  /** An empty value counts as none. */
  readonly emptyable?: true
}
type Default = string | number | readonly Default[] | { readonly [name: string]: Default }

export interface TextValue extends About {
  readonly kind: 'text'
  readonly grammar: Grammar
}
export interface ChoiceValue extends About {
  readonly kind: 'choice'
  readonly of: readonly string[]
}
/** Bounds are inclusive, and written as in the file. */
export interface DurationValue extends About {
  readonly kind: 'duration'
  readonly least: string
  readonly most: string
  /** A word that is allowed in place of a duration. */
  readonly or?: string
}
/** A whole number. Bounds are inclusive. */
export interface NumberValue extends About {
  readonly kind: 'number'
  readonly least: number
  readonly most: number
}
/** Whether a DER is a certificate that whoever uses the compiled file can read. */
export type IsCertificate = (der: Uint8Array) => boolean

/** What is read of a file, and what is passed over in it, one sentence each that follows the path. */
export interface FileReading<T> {
  readonly value: T
  readonly notes: readonly string[]
}

/** The path of a file; what is read is what `parse` makes of the file's content. The error follows the path. */
export interface FileValue extends About {
  readonly kind: 'file'
  readonly parse: (content: Uint8Array, isCertificate: IsCertificate) => Result<FileReading<unknown>, string>
}
export interface ListValue extends About {
  readonly kind: 'list'
  readonly of: Value
  /** A single entry is allowed without a list; then an empty list is a mistake. */
  readonly orOne?: true
}
export interface ObjectValue extends About {
  readonly kind: 'object'
  readonly fields: Readonly<Record<string, Value>>
  /** Exactly one of these. */
  readonly oneOf?: readonly string[]
  /** Both or neither. */
  readonly together?: readonly [string, string]
  /** At most one of the two. */
  readonly exclusive?: readonly [string, string]
}
export type Value = TextValue | ChoiceValue | DurationValue | NumberValue | FileValue | ListValue | ObjectValue

/** A place in the file: its path for messages, and its offset for line and column. */
export interface Place {
  readonly path: string
  readonly offset: number
}

/** What was read in one place. */
export interface Given<T> extends Place {
  /** Null: a mistake, which was added to the list. */
  readonly value: T | null
  /** The text, valid or not. */
  readonly raw: string | null
}

/** The type of a valid value. */
export type ValueOf<V> = V extends { kind: 'text' }
  ? string
  : V extends { kind: 'choice'; of: readonly (infer C)[] }
    ? C
    : V extends { kind: 'duration' }
      ? Seconds | (V extends { or: infer O } ? O : never)
      : V extends { kind: 'number' }
        ? number
        : V extends { kind: 'file'; parse: (...given: never[]) => Result<FileReading<infer T>, string> }
          ? T
          : V extends { kind: 'list'; of: infer I }
            ? readonly Given<ValueOf<I>>[]
            : V extends { kind: 'object'; fields: infer F }
              ? FieldsOf<F>
              : never

/** The fields of an object. Undefined: an optional field without a default that was left out. */
export type FieldsOf<F> = {
  readonly [N in keyof F]:
    | Given<ValueOf<F[N]>>
    | (F[N] extends { required: true } | { default: unknown } ? never : undefined)
}
