// The kinds of request that the bench measures. Another kind is another row.

import { enrollByAws, enrollByKubernetes, enrollByToken } from './enrollments.ts'
import type { Kind } from './kind.ts'
import { malformed, unknownPath, unknownToken } from './refusals.ts'
import { coldRenewals, firstRenewals, supersededRenewals, warmRenewals } from './renewals.ts'

/** In the order in which they are begun: cold renewals first, so that their objects are idle meanwhile. */
export const makeKinds = (): Kind[] => [
  coldRenewals(),
  enrollByToken,
  warmRenewals(),
  firstRenewals(),
  enrollByKubernetes,
  enrollByAws,
  malformed,
  unknownToken,
  supersededRenewals(),
  unknownPath,
]
