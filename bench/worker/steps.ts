// Makes of a recording the steps that the floor Worker repeats.

import type { Recording } from '../../test/worker/call-counts.ts'
import type { Step, Value } from './replay.ts'

interface Steps {
  readonly before: readonly Step[]
  readonly after: readonly Step[]
}

export function stepsOf({ calls, storage, answeredAt }: Recording, globals: Steps): Steps {
  const sizes = storage.filter(({ method }) => method === 'put').map(({ values }) => sizeOf(values[1]))
  const object = {
    // One of each at most: what the object reads or writes twice is not needed.
    reads: storage.some(({ method }) => method === 'get'),
    stores: sizes.length > 0 ? Math.max(...sizes) : null,
    alarm: storage.some(({ method }) => method === 'setAlarm'),
  }
  const step = ({ place, values, statements }: Recording['calls'][number]): Step => {
    switch (place) {
      case 'd1':
        return { do: 'd1', statements: statements.map(({ sql, values }) => ({ sql, values: values.map(boundValue) })) }
      case 'object':
        return { do: 'object', sent: sizeOf(values), ...object }
      case 'kv':
        return { do: 'kv', name: String(values[0]) }
    }
  }
  return {
    before: [...globals.before, ...calls.filter(({ to }) => to < answeredAt).map(step)],
    after: [...globals.after, ...calls.filter(({ to }) => to > answeredAt).map(step)],
  }
}

function boundValue(value: unknown): Value {
  if (typeof value === 'string' || typeof value === 'number' || value === null) return value
  throw new Error(`the floor Worker binds no ${typeof value}`)
}

/** Characters of a value as text, bytes one each. */
const sizeOf = (value: unknown): number => {
  let bytes = 0
  const text = JSON.stringify(value, (_, part: unknown) => {
    if (!ArrayBuffer.isView(part)) return part
    bytes += part.byteLength
    return ''
  })
  return (text ?? '').length + bytes
}
