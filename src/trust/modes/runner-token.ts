// `runner-token` in the trust file: tenant and runner ID are those that the token was minted for.

import { ok } from '../../protocol/result.ts'
import { clientByIdentity, type TrustMode } from './mode.ts'

export interface RunnerTokenClaims {
  readonly mode: 'runner-token'
  readonly tokenId: string
  readonly tenant: string
  readonly runnerId: string
}

export const runnerToken: TrustMode<RunnerTokenClaims, unknown> = {
  place: (_, { tenant, runnerId, tokenId }) => ok({ tenant, runnerId, source: '', identity: tokenId }),
  clientOf: clientByIdentity,
}
