// The clock and the trust file of the Worker under test and of its Durable Objects; a test may change both.
import { type Clock, type EpochMilliseconds, epochMilliseconds } from '../../src/protocol/time.ts'
import type { CompiledTrust } from '../../src/trust/compiled.ts'
import { trustWith } from './trust.ts'

const state: { trust: CompiledTrust; now: EpochMilliseconds | null } = { trust: trustWith(), now: null }

/** Always the trust file of the moment, as after a deploy. */
const trust = new Proxy(state.trust, { get: (_, name) => Reflect.get(state.trust, name) })
const clock: Clock = () => state.now ?? epochMilliseconds(Date.now())

export const deployment = {
  trust,
  clock,
  setTrust: (changes: Partial<CompiledTrust>): void => {
    state.trust = trustWith(changes)
  },
  setTime: (milliseconds: number): void => {
    state.now = epochMilliseconds(milliseconds)
  },
  advance: (seconds: number): void => {
    state.now = epochMilliseconds(clock() + seconds * 1000)
  },
}
