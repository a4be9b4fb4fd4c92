// The types of declarations: plain data that says once what each field of the trust file may hold. The reader, its
// messages, the JSON Schema and the types of what was read follow from them. Types alone.

import type { Result } from '../protocol/result.ts'
import type { Seconds } from '../protocol/time.ts'

/** What a text may be. */
export interface Grammar {
  /** To follow "must be" in a message. */
  readonly what: string
  readonly allowed: (text: string) => boolean
  /** The very thing that is wrong, to follow the value, where `what` would say too little. */
  readonly fault?: (text: string) => string | null
  /** Keywords of JSON Schema that say about the same: the compiler remains the judge. */
  readonly schema: { readonly pattern?: string; readonly maxLength?: number }
}

interface About {
  /** For editors. */
  readonly description?: string
  readonly required?: true
  /** As it would stand in the file. */
  readonly default?: Default
  /** An empty value counts as none. */
  readonly emptyable?: true
}
type Default = string | readonly Default[] | { readonly [name: string]: Default }

export interface TextValue extends About {
  readonly kind: 'text'
  readonly grammar: Grammar
}
export interface ChoiceValue extends About {
  readonly kind: 'choice'
  readonly of: readonly string[]
}
/** Bounds are inclusive and as they would stand in the file. */
export interface DurationValue extends About {
  readonly kind: 'duration'
  readonly least: string
  readonly most: string
  /** A word that may stand in place of a duration. */
  readonly or?: string
}
/** The path of a file; what is read is what `parse` makes of the file's content. The error follows the path. */
export interface FileValue extends About {
  readonly kind: 'file'
  readonly parse: (content: Uint8Array) => Result<unknown, string>
}
export interface ListValue extends About {
  readonly kind: 'list'
  readonly of: Value
  /** One entry may stand by itself; then an empty list is a mistake. */
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
export type Value = TextValue | ChoiceValue | DurationValue | FileValue | ListValue | ObjectValue

/** A place in the file: how it is called in messages, and where a fault of it points. */
export interface Place {
  readonly path: string
  readonly offset: number
}

/** What was read in one place. */
export interface Given<T> extends Place {
  /** Null: it is a mistake, which was noted. */
  readonly value: T | null
  /** A text as it stands, right or not. */
  readonly raw: string | null
}

/** What is read of a value that is as declared. */
export type ValueOf<V> = V extends { kind: 'text' }
  ? string
  : V extends { kind: 'choice'; of: readonly (infer C)[] }
    ? C
    : V extends { kind: 'duration' }
      ? Seconds | (V extends { or: infer O } ? O : never)
      : V extends { kind: 'file'; parse: (content: Uint8Array) => Result<infer T, string> }
        ? T
        : V extends { kind: 'list'; of: infer I }
          ? readonly Given<ValueOf<I>>[]
          : V extends { kind: 'object'; fields: infer F }
            ? FieldsOf<F>
            : never

/** The fields of an object; undefined: left out, where that is right and there is no default. */
export type FieldsOf<F> = {
  readonly [N in keyof F]:
    | Given<ValueOf<F[N]>>
    | (F[N] extends { required: true } | { default: unknown } ? never : undefined)
}
