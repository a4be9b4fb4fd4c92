// The challenges of the tunnel that an enrollment has used: each is accepted once, and before it expires. Pure.

import { type Outcome, refuse } from '../../protocol/refusals.ts'
import { ok } from '../../protocol/result.ts'
import { addSeconds, type EpochSeconds } from '../../protocol/time.ts'
import { REPLAY_MEMORY_MARGIN } from './windows.ts'

export interface Challenge {
  readonly challenge: string
  readonly expiresAt: EpochSeconds
}

export interface UsedChallenge extends Challenge {
  /** Of the certificate whose key signed it. */
  readonly serial: string
}

/** For the connections of one enrollment within the 90 seconds for which a challenge is remembered. */
const CHALLENGES_KEPT = 96
/** How many of them may be of one certificate, so that the holder of an old one cannot shut out the runner. */
const CHALLENGES_OF_ONE = 48

/** The used challenges with one more. Those that can no longer be replayed are dropped. */
export function useChallenge(
  used: readonly UsedChallenge[],
  challenge: UsedChallenge,
  now: EpochSeconds,
): Outcome<readonly UsedChallenge[]> {
  const kept = used.filter(({ expiresAt }) => addSeconds(expiresAt, REPLAY_MEMORY_MARGIN) >= now)
  const isUsed = kept.some((earlier) => earlier.challenge === challenge.challenge)
  const ofOne = kept.filter(({ serial }) => serial === challenge.serial)
  const isFull = kept.length >= CHALLENGES_KEPT || ofOne.length >= CHALLENGES_OF_ONE
  if (now > challenge.expiresAt || isUsed || isFull) return refuse('proof_invalid')
  return ok([...kept, challenge])
}
