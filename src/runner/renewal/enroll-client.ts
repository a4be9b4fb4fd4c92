// What the runner says to POST /api/enroll, and one attempt at it.

import { PROTOCOL_VERSION } from '../../protocol/enroll.ts'
import type { EpochMilliseconds, Milliseconds } from '../../protocol/time.ts'
import { type EvidenceSource, gatherEvidence } from '../evidence/evidence.ts'
import type { Identity } from '../identity/identity.ts'
import { type RequestKey, signNonce } from '../identity/keys.ts'
import type { Fields } from '../log.ts'
import type { Post } from '../net/http.ts'
import { type Reply, readAnswer, skewOf } from './response.ts'

/** The reply to one attempt, and what is known besides. */
export interface Attempted {
  readonly reply: Reply
  /** What the evidence says of itself; only for a Kubernetes token. */
  readonly described: Fields
  /** The server's clock less ours. */
  readonly skew: Milliseconds | null
}

export interface Door {
  /** Never rejects: what goes wrong on the way is `unavailable`. */
  readonly enroll: (source: EvidenceSource, request: RequestKey, signal: AbortSignal) => Promise<Attempted>
  readonly renew: (identity: Identity, request: RequestKey, signal: AbortSignal) => Promise<Attempted>
}

export function openDoor(url: URL, post: Post, clock: () => EpochMilliseconds, instanceId: string): Door {
  const address = new URL('/api/enroll', url)

  async function send(
    attestation: Readonly<Record<string, unknown>>,
    described: Fields,
    request: RequestKey,
    renews: Identity | null,
    signal: AbortSignal,
  ): Promise<Attempted> {
    const { csr, nonce: challengeNonce, key } = request
    const body = JSON.stringify({ version: PROTOCOL_VERSION, attestation, csr, challengeNonce, instanceId })
    try {
      const answer = await post(address, body, signal)
      const now = clock()
      return { reply: readAnswer(answer, { key, renews }, now), described, skew: skewOf(answer, now) }
    } catch (error) {
      return unavailable(error instanceof Error ? error.message : 'no connection')
    }
  }

  return {
    async enroll(source, request, signal) {
      const gathered = await gatherEvidence(source, request.nonce, clock())
      if ('unavailable' in gathered) return unavailable(gathered.unavailable)
      if (signal.aborted) return unavailable('stopped')
      return send(gathered.attestation, gathered.described, request, null, signal)
    },
    async renew(identity, request, signal) {
      const { certificate, key } = identity
      const attestation = { mode: 'mtls-renewal', certificate, signature: signNonce(key, request.nonce) }
      return send(attestation, {}, request, identity, signal)
    },
  }
}

const unavailable = (why: string): Attempted => ({
  reply: { type: 'unavailable', why, retryAfter: null },
  described: {},
  skew: null,
})
