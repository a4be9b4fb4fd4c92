// Runs the floor Worker on an edge of its own, and makes its requests out of those of the real Worker.

import type { Kind } from './kinds/kind.ts'
import { type Shot, send } from './load.ts'
import type { Recorded } from './recording.ts'
import { type RunningSite, startSite } from './site.ts'
import { differing } from './worker/replay.ts'

/** What the floor Worker does of the steps of a request: all, the calls to D1 alone, or none. */
export type Part = 'all' | 'd1' | 'nothing'

export interface Floor extends Pick<RunningSite, 'url' | 'pid' | 'stop'> {
  /** Requests with the same bodies. */
  readonly prepare: (kind: Kind, part: Part, shots: readonly Shot[]) => Promise<Shot[]>
  /** Makes the objects that cold requests will load. */
  readonly begin: (kind: Kind, total: number) => Promise<void>
}

export async function startFloor(recorded: ReadonlyMap<string, Recorded>, ending: AbortSignal): Promise<Floor> {
  const site = await startSite({ entry: new URL('worker/floor.ts', import.meta.url).pathname, ending })
  try {
    const replays = Object.fromEntries([...recorded].map(([kind, { replay }]) => [kind, replay]))
    await fetch(site.url, { method: 'PUT', body: JSON.stringify(replays) })
  } catch (error) {
    await site.stop()
    throw error
  }
  const numbers = new Map<string, number>()
  const next = (name: string): number => {
    const number = numbers.get(name) ?? 0
    numbers.set(name, number + 1)
    return number
  }
  return {
    url: site.url,
    pid: site.pid,
    stop: site.stop,
    prepare: async (kind, part, shots) => {
      const { name, objects } = kind
      const made = shots.map(({ body }) => ({ number: next(name), body }))
      const tokens = recorded.get(name)?.tokens ?? []
      await site.recordTokens(tokens.flatMap((hash) => made.map(({ number }) => differing(hash, number))))
      // Parts without objects must not use up the cold ones.
      const object = (): number => (part === 'all' ? next(`${name} objects`) % (objects ?? Number.MAX_SAFE_INTEGER) : 0)
      const only = part === 'all' ? '' : `&only=${part}`
      return made.map(({ number, body }) => ({
        method: 'POST',
        path: `/${name}/${number}?object=${name}-${object()}${only}`,
        body,
      }))
    },
    begin: async ({ name, status }, total) => {
      const shots = Array.from({ length: total }, (_, i): Shot => {
        const path = `/${name}/${next(name)}?object=${name}-${i}`
        return { method: 'POST', path, body: () => '' }
      })
      await send(site.url, shots, { connections: 8, status })
    },
  }
}
