// The time and the trust file that the objects of enrollments see, and a Worker that sees the same; tests change both.
import { type Clock, type EpochMilliseconds, epochMilliseconds } from '../../src/protocol/time.ts'
import type { CompiledTrust } from '../../src/trust/compiled.ts'
import { trustWith } from './trust.ts'

const state: { trust: CompiledTrust; now: EpochMilliseconds | null } = { trust: trustWith(), now: null }

/** Always the trust file of the moment, as after a deploy. */
const trust = new Proxy(state.trust, { get: (_, name) => Reflect.get(state.trust, name) })
const clock: Clock = () => state.now ?? epochMilliseconds(Date.now())

export const world = {
  trust,
  clock,
  deploy: (changes: Partial<CompiledTrust>): void => {
    state.trust = trustWith(changes)
  },
  setTime: (milliseconds: number): void => {
    state.now = epochMilliseconds(milliseconds)
  },
  pass: (seconds: number): void => {
    state.now = epochMilliseconds(clock() + seconds * 1000)
  },
}
