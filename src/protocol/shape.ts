// Parses JSON bodies by shapes that are declared with valibot, and words what does not fit. No I/O.

import * as v from 'valibot'
import { quote } from './characters.ts'
import { err, ok, type Result } from './result.ts'
import { isObject, type Json } from './strict-json.ts'

/** A message completes the sentence `<field> must be …`. */
export const text = v.string('a string')

/** An object whose values are strings. */
export const texts = v.custom<Readonly<Record<string, string>>>(
  (value) => isObject(value) && Object.values(value).every((one) => typeof one === 'string'),
  ({ input }) => {
    const odd = isObject(input) ? Object.entries(input).find(([, one]) => typeof one !== 'string') : undefined
    return odd === undefined ? 'an object' : `an object of strings, and ${quote(odd[0], 40)} is none`
  },
)

/** A shape of `v.strictObject`. */
export type Fields<E extends v.ObjectEntries = v.ObjectEntries> = v.StrictObjectSchema<E, undefined>

/**
 * The value as its shape says, or a sentence about the first fault, which names the field and quotes no value. `name`:
 * of the object itself, as a prefix of the field's; empty for a body.
 */
export function parseShape<S extends v.GenericSchema>(
  shape: S,
  value: Json,
  name = '',
): Result<v.InferOutput<S>, string> {
  // valibot takes a list for an object.
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
