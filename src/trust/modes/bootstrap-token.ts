// `bootstrap-token` in the trust file: the tenant is the one that the token was minted for.

import { ok } from '../../protocol/result.ts'
import type { TrustMode } from './mode.ts'

export interface BootstrapTokenClaims {
  readonly mode: 'bootstrap-token'
  readonly tokenId: string
  /** The tenant that the token was minted for. */
  readonly tenant: string
}

export const bootstrapToken: TrustMode<BootstrapTokenClaims, unknown> = {
  proven: ({ tokenId }) => ({ source: '', identity: tokenId }),
  place: (_, { tenant }) => ok({ tenant, runnerId: null }),
  instance: null,
}
