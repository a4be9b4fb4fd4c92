// `provisioned` in the trust file: the tenant is the one that the operator issued the certificate for.

import { ok } from '../../protocol/result.ts'
import type { TrustMode } from './mode.ts'

/** A certificate from the operator's own CA folder, `muster ca issue`. */
export interface ProvisionedClaims {
  readonly mode: 'provisioned'
  readonly tenant: string
}

export const provisioned: TrustMode<ProvisionedClaims, unknown> = {
  proven: () => ({ source: '', identity: '' }),
  place: (_, { tenant }) => ok({ tenant, runnerId: null }),
  instance: null,
}
