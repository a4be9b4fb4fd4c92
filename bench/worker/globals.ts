// Records what a Worker asks of WebCrypto and of other hosts, as steps that the floor Worker can repeat.

import type { Algorithm, Step } from './replay.ts'

export interface Globals {
  readonly answered: () => void
  /** The steps before and after the answer, since the last time. */
  readonly take: () => { readonly before: readonly Step[]; readonly after: readonly Step[] }
}

/** Changes `crypto.subtle` and `fetch` of this isolate. */
export function recordGlobals(): Globals {
  let before: Step[] = []
  let after: Step[] = []
  let isAnswered = false
  const record = (step: Step | null): void => {
    if (step !== null) (isAnswered ? after : before).push(step)
  }

  const { subtle } = crypto
  for (const method of ['digest', 'sign', 'verify', 'importKey'] as const) {
    const real: unknown = Reflect.get(subtle, method)
    if (typeof real !== 'function') throw new Error(`WebCrypto has no ${method}`)
    const value = (...values: unknown[]): unknown => {
      record(cryptoStep(method, values))
      return Reflect.apply(real, subtle, values)
    }
    Object.defineProperty(subtle, method, { value })
  }
  const realFetch = globalThis.fetch
  globalThis.fetch = async (input, init) => {
    const request = new Request(input, init)
    const body = await request.clone().text()
    record({ do: 'fetch', url: request.url, headers: [...request.headers], body })
    return realFetch(request)
  }

  return {
    answered: () => {
      isAnswered = true
    },
    take: () => {
      const taken = { before, after }
      before = []
      after = []
      isAnswered = false
      return taken
    },
  }
}

function cryptoStep(method: 'digest' | 'sign' | 'verify' | 'importKey', values: readonly unknown[]): Step | null {
  const [first, second, third, fourth] = values
  switch (method) {
    case 'digest':
      return { do: 'digest', bytes: lengthOf(second) }
    case 'sign':
      return { do: 'sign', algorithm: algorithmOf(first), bytes: lengthOf(third) }
    case 'verify':
      return { do: 'verify', algorithm: algorithmOf(first), bytes: lengthOf(fourth) }
    case 'importKey':
      // The point of a runner. Other keys are imported once an isolate.
      return first === 'raw' && second instanceof Uint8Array && second.length === 65
        ? { do: 'import', point: btoa(String.fromCharCode(...second)) }
        : null
  }
}

const lengthOf = (value: unknown): number =>
  value instanceof ArrayBuffer || ArrayBuffer.isView(value) ? value.byteLength : 0

function algorithmOf(value: unknown): Algorithm {
  const name = typeof value === 'string' ? value : String(Reflect.get(Object(value), 'name'))
  if (name === 'ECDSA' || name === 'HMAC' || name === 'RSASSA-PKCS1-v1_5') return name
  throw new Error(`the floor Worker knows no ${name}`)
}
