// Measures what Miniflare's emulation of D1 costs for one request: a Worker makes the same calls to D1 and nothing else,
// and then none.

import { startFloor } from '../floor.ts'
import type { Kind } from '../kinds/kind.ts'
import { measure } from '../measure.ts'
import { type Recorded, startRecorder } from '../recording.ts'
import { musterKinds } from './muster.ts'

export interface Emulation {
  /** Milliseconds of workerd's CPU for a request of this kind; 0 where it makes no call. */
  readonly measure: (kind: Kind, count: number) => Promise<number>
  readonly stop: () => Promise<void>
}

export async function startEmulation(connections: number, ending: AbortSignal): Promise<Emulation> {
  const recorded = await record(ending)
  const floor = await startFloor(recorded, ending)
  return {
    stop: floor.stop,
    measure: async (kind, count) => {
      const asks = (recorded.get(kind.name)?.counts.d1.calls ?? 0) > 0
      if (!asks) return 0
      const cpu = async (part: 'd1' | 'nothing'): Promise<number> => {
        const shots = await floor.prepare(kind, part, bodies(count))
        return (await measure(floor, shots, { connections, status: kind.status })).cpu / 1000
      }
      return Math.max(0, (await cpu('d1')) - (await cpu('nothing')))
    },
  }
}

/** Both Workers read the same body to its end, so what is in it changes nothing. */
const bodies = (count: number) =>
  Array.from({ length: count }, () => ({ method: 'POST', path: '/', body: () => '{}' }) as const)

/** What a request of each kind asks for, once its isolate is warm. */
async function record(ending: AbortSignal): Promise<Map<string, Recorded>> {
  const recorder = await startRecorder(ending)
  try {
    const recorded = new Map<string, Recorded>()
    for (const { kind } of musterKinds()) {
      await recorder.begin(kind)
      recorded.set(kind.name, await recorder.record(kind))
    }
    return recorded
  } finally {
    await recorder.stop()
  }
}
