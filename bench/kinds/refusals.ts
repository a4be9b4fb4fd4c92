// Requests that are refused without proof: a request without a shape, an unknown token, an unknown path.

import { mintToken } from '../../src/protocol/tokens.ts'
import { enrollBody, makeRequester } from '../../test/fakes/requester.ts'
import { ENROLL, make, post } from './enrollments.ts'
import type { Kind } from './kind.ts'

/** Refusals from which on hardly one gets a row in D1 (store/refusal-cap.ts). */
export const FLOOD = 40

export const malformed: Kind = {
  name: 'malformed',
  status: 400,
  settlesAfter: FLOOD,
  requests: { quick: 64, full: 3000 },
  prepare: (_, count) => make(count, async () => post(ENROLL, {})),
}

/** A CSR that is well made, so the refusal comes at the token. */
export const unknownToken: Kind = {
  name: 'unknown-token',
  isExtra: true,
  status: 401,
  settlesAfter: FLOOD,
  requests: { quick: 64, full: 1000 },
  prepare: async (_, count) =>
    make(count, async () =>
      post(ENROLL, enrollBody(await makeRequester(), { mode: 'bootstrap-token', token: mintToken('bootstrap') })),
    ),
}

export const unknownPath: Kind = {
  name: 'unknown-path',
  status: 404,
  requests: { quick: 64, full: 3000 },
  prepare: (_, count) => make(count, async () => ({ method: 'GET', path: '/nothing/here', body: () => '' })),
}
