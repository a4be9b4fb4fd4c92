// Until when a certificate or a challenge may be used, by the clock of the enrollment's object, and how much longer the
// object remembers that it was. Pure.

import { CLOCK_LEEWAY, RENEWAL_GRACE } from '../../protocol/limits.ts'
import { addSeconds, type EpochSeconds, minutes } from '../../protocol/time.ts'

/**
 * What may be used once is remembered for so long past its end. The object judges the end by its own clock, so the
 * margin is for that clock alone: it may be set back.
 */
export const REPLAY_MEMORY_MARGIN = minutes(1)

/** The last moment at which a certificate may be renewed. */
export const renewableUntil = ({ notAfter }: { readonly notAfter: EpochSeconds }): EpochSeconds =>
  addSeconds(addSeconds(notAfter, RENEWAL_GRACE), CLOCK_LEEWAY)
