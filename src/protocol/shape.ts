// Shapes of JSON bodies, declared once with valibot: the types, the check, and the words for what does not fit. No I/O.

import * as v from 'valibot'
import { quote } from './characters.ts'
import { err, ok, type Result } from './result.ts'
import { isObject, type Json, type JsonObject } from './strict-json.ts'

/** Each message says what a value must be, so that `csr` and `a string` make a sentence. */
export const text = v.string('a string')

/** An object whose values are strings. */
export const texts = v.custom<Readonly<Record<string, string>>>(
  (value) => isObject(value as Json) && Object.values(value as JsonObject).every((one) => typeof one === 'string'),
  ({ input }) => {
    const odd = isObject(input as Json)
      ? Object.entries(input as JsonObject).find(([, one]) => typeof one !== 'string')
      : undefined
    return odd === undefined ? 'an object' : `an object of strings, and ${quote(odd[0], 40)} is none`
  },
)

/** A shape of named fields and no other, as `v.strictObject` makes it. */
export type Fields<E extends v.ObjectEntries = v.ObjectEntries> = v.StrictObjectSchema<E, undefined>

/**
 * The value rebuilt by its shape, or a sentence about the first thing that does not fit: it names the field, under
 * `name` where that is not empty, and quotes no value.
 */
export function parseShape<S extends v.GenericSchema>(
  shape: S,
  value: Json,
  name = '',
): Result<v.InferOutput<S>, string> {
  // To valibot a list is an object, too.
  if (!isObject(value)) return err(`${name || 'the body'} must be a JSON object`)
  const parsed = v.safeParse(shape, value, { abortEarly: true })
  if (parsed.success) return ok(parsed.output)
  const [issue] = parsed.issues
  const path = (issue.path ?? []).map(({ key }) => String(key))
  const last = path.at(-1) ?? ''
  const field = (segments: readonly string[]) => [...(name === '' ? [] : [name]), ...segments].join('.')
  if (issue.type === 'strict_object' || issue.type === 'object') {
    return issue.expected === 'never'
      ? err(`unknown field ${field([...path.slice(0, -1), quote(last, 40)])}`)
      : err(`${field(path)} is missing`)
  }
  return err(`${field(path)} must be ${issue.message}`)
}
