// Evaluates the keywords of JSON Schema that the schema of the trust file uses. An unknown keyword throws.

type Schema = Readonly<Record<string, unknown>>

/** Where `value` does not fit the schema, a line each. */
export function schemaFaults(schema: Schema, value: unknown, path = ''): string[] {
  return Object.entries(schema).flatMap(([keyword, argument]) => {
    const rule = RULES[keyword]
    if (rule === undefined) throw new Error(`no rule for the keyword ${keyword}`)
    return rule(argument as never, value, path).map((fault) => (fault.startsWith('/') ? fault : `${path}/: ${fault}`))
  })
}

type Rule = (argument: never, value: unknown, path: string) => string[]

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
const typeOf = (value: unknown): string =>
  value === null ? 'null' : Array.isArray(value) ? 'array' : Number.isInteger(value) ? 'integer' : typeof value
const fits = (schema: Schema, value: unknown): boolean => schemaFaults(schema, value).length === 0
const when = (wrong: boolean, fault: string): string[] => (wrong ? [fault] : [])

const RULES: Readonly<Record<string, Rule>> = {
  $schema: () => [],
  title: () => [],
  description: () => [],
  default: () => [],
  // Held by `properties`.
  additionalProperties: () => [],
  type: (types: string | string[], value) => when(![types].flat().includes(typeOf(value)), `is no ${types}`),
  const: (only: unknown, value) => when(value !== only, `is not ${only}`),
  enum: (all: unknown[], value) => when(!all.includes(value), `is none of ${all}`),
  minimum: (least: number, value) => when(typeof value === 'number' && value < least, 'is too small'),
  maximum: (most: number, value) => when(typeof value === 'number' && value > most, 'is too large'),
  minLength: (least: number, value) => when(typeof value === 'string' && value.length < least, 'is too short'),
  maxLength: (most: number, value) => when(typeof value === 'string' && value.length > most, 'is too long'),
  pattern: (pattern: string, value) =>
    when(typeof value === 'string' && !new RegExp(pattern, 'u').test(value), `is not ${pattern}`),
  minItems: (least: number, value) => when(Array.isArray(value) && value.length < least, 'has too few entries'),
  items: (schema: Schema, value, path) =>
    Array.isArray(value) ? value.flatMap((entry, i) => schemaFaults(schema, entry, `${path}/${i}`)) : [],
  properties: (schemas: Record<string, Schema>, value, path) =>
    !isObject(value)
      ? []
      : Object.entries(value).flatMap(([name, inner]) => {
          const schema = schemas[name]
          return schema === undefined ? [`knows no ${name}`] : schemaFaults(schema, inner, `${path}/${name}`)
        }),
  required: (names: string[], value) =>
    when(isObject(value) && names.some((n) => !(n in value)), `lacks one of ${names}`),
  dependentRequired: (others: Record<string, string[]>, value) =>
    !isObject(value)
      ? []
      : Object.entries(others).flatMap(([name, needed]) =>
          when(name in value && needed.some((n) => !(n in value)), `${name} needs ${needed}`),
        ),
  not: (schema: Schema, value) => when(fits(schema, value), 'fits what it must not'),
  anyOf: (schemas: Schema[], value) => when(!schemas.some((s) => fits(s, value)), 'fits none of several'),
  oneOf: (schemas: Schema[], value) => when(schemas.filter((s) => fits(s, value)).length !== 1, 'fits not exactly one'),
}
