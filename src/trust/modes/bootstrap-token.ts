// `bootstrap-token` in the trust file: the tenant is the one that the token was minted for.

import { ok } from '../../protocol/result.ts'
import { clientByIdentity, type TrustMode } from './mode.ts'

export interface BootstrapTokenClaims {
  readonly mode: 'bootstrap-token'
  readonly tokenId: string
  /** The tenant that the token was minted for. */
  readonly tenant: string
}

export const bootstrapToken: TrustMode<BootstrapTokenClaims, unknown> = {
  place: (_, { tenant, tokenId }) => ok({ tenant, runnerId: null, source: '', identity: tokenId }),
  clientOf: clientByIdentity,
}
