// Makes the JSON Schema (2020-12) of the trust file, for editors, from its declaration.

import type { ObjectValue, Value } from './declaration.ts'

export interface Schema {
  readonly [keyword: string]: unknown
}

export const schemaDocument = (file: ObjectValue): Schema => ({
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  title: 'Muster trust file',
  ...schemaOf(file),
})

function schemaOf(value: Value): Schema {
  return {
    ...(value.description === undefined ? {} : { description: value.description }),
    ...(value.default === undefined ? {} : { default: value.default }),
    ...(value.emptyable ? { type: ['string', 'null'] } : shapeOf(value)),
  }
}

function shapeOf(value: Value): Schema {
  switch (value.kind) {
    case 'text':
      return { type: 'string', minLength: 1, ...value.grammar.schema }
    case 'choice':
      return { enum: value.of }
    case 'duration':
      return value.or === undefined ? DURATION : { anyOf: [{ const: value.or }, DURATION] }
    case 'number':
      return { type: 'integer', minimum: value.least, maximum: value.most }
    case 'file':
      return { type: 'string', minLength: 1 }
    case 'list': {
      const list = { type: 'array', items: schemaOf(value.of) }
      return value.orOne ? { anyOf: [schemaOf(value.of), { ...list, minItems: 1 }] } : list
    }
    case 'object':
      return objectSchema(value)
  }
}

const DURATION = { type: 'string', minLength: 1, pattern: '^([0-9]{1,8}h)?([0-9]{1,8}m)?([0-9]{1,8}s)?$' }

function objectSchema({ fields, oneOf, together, exclusive }: ObjectValue): Schema {
  const required = Object.entries(fields).flatMap(([name, value]) => (value.required ? [name] : []))
  // What may be there and empty is not absent to a schema.
  const excludes = exclusive?.every((name) => !fields[name]?.emptyable)
  return {
    type: 'object',
    additionalProperties: false,
    properties: Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, schemaOf(value)])),
    ...(required.length === 0 ? {} : { required }),
    ...(oneOf === undefined ? {} : { oneOf: oneOf.map((name) => ({ required: [name] })) }),
    ...(together === undefined
      ? {}
      : { dependentRequired: { [together[0]]: [together[1]], [together[1]]: [together[0]] } }),
    ...(excludes ? { not: { required: exclusive } } : {}),
  }
}
