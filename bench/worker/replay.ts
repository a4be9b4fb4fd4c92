// What the floor Worker does for one request of a kind: the calls that the real one was seen to make. Types, and how the
// values differ from one request to the next.

/** One that must be another in each request is kept as the text that it was first. */
type Cell = string | number | null | { readonly each: string }

/** A bound value; `rows` is bound as JSON. */
export type Value = Cell | { readonly rows: readonly (readonly Cell[])[] }

export type Algorithm = 'ECDSA' | 'HMAC' | 'RSASSA-PKCS1-v1_5'

export type Step =
  | { readonly do: 'd1'; readonly statements: readonly { readonly sql: string; readonly values: readonly Value[] }[] }
  /** An object is sent a text, reads one value, and stores one, of so many characters; null: it does not. */
  | {
      readonly do: 'object'
      readonly sent: number
      readonly reads: boolean
      readonly stores: number | null
      readonly alarm: boolean
    }
  | { readonly do: 'kv'; readonly name: string }
  | { readonly do: 'digest'; readonly bytes: number }
  | { readonly do: 'sign' | 'verify'; readonly algorithm: Algorithm; readonly bytes: number }
  /** A P-256 point, base64. */
  | { readonly do: 'import'; readonly point: string }
  | { readonly do: 'fetch'; readonly url: string; readonly headers: readonly [string, string][]; readonly body: string }

export interface Replay {
  /** What the answer waits for, one after another. */
  readonly before: readonly Step[]
  /** What goes on after it. */
  readonly after: readonly Step[]
  readonly status: number
  /** Characters of the answer. */
  readonly answer: number
}

/** The value to bind for the request of this number. */
export function boundValue(value: Value, number: number): string | number | null {
  if (!(value instanceof Object)) return value
  if ('each' in value) return differing(value.each, number)
  return JSON.stringify(value.rows.map((row) => row.map((cell) => boundValue(cell, number))))
}

/** The same length, the same beginning, and a number of its own at the end. */
export const differing = (text: string, number: number): string => {
  const end = number.toString(16).padStart(8, '0')
  return text.length <= end.length ? `${text}${end}` : text.slice(0, -end.length) + end
}
