// `runner-token` in the trust file: tenant and runner ID are those that the token was minted for.

import { ok } from '../../protocol/result.ts'
import type { TrustMode } from './mode.ts'

export interface RunnerTokenClaims {
  readonly mode: 'runner-token'
  readonly tokenId: string
  readonly tenant: string
  readonly runnerId: string
}

export const runnerToken: TrustMode<RunnerTokenClaims, unknown> = {
  proven: ({ tokenId }) => ({ source: '', identity: tokenId }),
  place: (_, { tenant, runnerId }) => ok({ tenant, runnerId }),
  instance: null,
}
