// Until when a certificate may be renewed, and how much longer the enrollment's object remembers what was used. Pure.

import { CLOCK_LEEWAY, RENEWAL_GRACE } from '../../protocol/limits.ts'
import { addSeconds, type EpochSeconds, minutes } from '../../protocol/time.ts'

/**
 * What may be used once is remembered this long after it expires. The object checks the expiry by its own clock too, so
 * the margin only has to cover that this clock is set back.
 */
export const REPLAY_MEMORY_MARGIN = minutes(1)

/** The last moment at which a certificate may be renewed. */
export const renewableUntil = ({ notAfter }: { readonly notAfter: EpochSeconds }): EpochSeconds =>
  addSeconds(addSeconds(notAfter, RENEWAL_GRACE), CLOCK_LEEWAY)
