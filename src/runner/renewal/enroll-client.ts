// Asks POST /api/enroll for a certificate, with evidence or with the certificate that is to be renewed.

import { codeOf } from '../../node/errors.ts'
import type { Network } from '../../node/http-client.ts'
import { PROTOCOL_VERSION } from '../../protocol/enroll.ts'
import { ENROLL_PATH } from '../../protocol/paths.ts'
import { err, type Result } from '../../protocol/result.ts'
import type { Milliseconds } from '../../protocol/time.ts'
import type { Fields } from '../environment/log.ts'
import type { ServerClock } from '../environment/server-clock.ts'
import type { EvidenceSource } from '../evidence/evidence.ts'
import type { Identity } from '../identity/identity.ts'
import { type RequestKey, signNonce } from '../identity/keys.ts'
import { type Post, requestFailed } from '../net/http.ts'
import type { Enrolled } from './enrolled.ts'
import { type EnrollFailure, readEnrollResponse, timeOf } from './response.ts'

/** One attempt: its result, and what the log needs. */
export interface Attempt {
  readonly result: Result<Enrolled, EnrollFailure>
  /** False where nothing was sent, since there is no evidence to send. */
  readonly asked: boolean
  /** What the evidence says of itself; nothing for a minted token. */
  readonly described: Fields
  /** The server's clock less ours. */
  readonly skew: Milliseconds | null
}

/** No call rejects: without an answer, the verdict is `later`. */
export interface EnrollClient {
  readonly enroll: (source: EvidenceSource, request: RequestKey, signal: AbortSignal) => Promise<Attempt>
  readonly renew: (identity: Identity, request: RequestKey, signal: AbortSignal) => Promise<Attempt>
}

export function enrollClient(
  url: URL,
  network: Network,
  post: Post,
  clock: ServerClock,
  instanceId: string,
): EnrollClient {
  const address = new URL(ENROLL_PATH, url)

  async function send(
    attestation: Readonly<Record<string, unknown>>,
    described: Fields,
    request: RequestKey,
    renewed: Identity | null,
    signal: AbortSignal,
  ): Promise<Attempt> {
    const { csr, nonce: challengeNonce, key } = request
    const body = JSON.stringify({ version: PROTOCOL_VERSION, attestation, csr, challengeNonce, instanceId })
    const answer = await post(address, body, signal)
    if (!answer.ok) return failed(answer.error.why)
    const time = timeOf(answer.value)
    const skew = time === null ? null : clock.tell(time)
    // OpenSSL throws for a certificate with a key that it does not know.
    const result = readEnrollResponse(answer.value, { key, renewed }, clock.now())
    return { result, asked: true, described, skew }
  }

  /** What comes from outside (an answer, a file, a profile of AWS) never ends the runner by an exception. */
  const caught = (error: unknown): Attempt =>
    failed(codeOf(error, error instanceof Error ? error.name : 'unknown error'))

  async function enroll(source: EvidenceSource, request: RequestKey, signal: AbortSignal): Promise<Attempt> {
    const evidence = await source.gather(request.nonce, clock.now(), network)
    if (!evidence.ok) return failed(evidence.error, false)
    if (signal.aborted) return failed('stopped')
    return send(evidence.value.attestation, evidence.value.described, request, null, signal)
  }

  async function renew(identity: Identity, request: RequestKey, signal: AbortSignal): Promise<Attempt> {
    const { certificate, key } = identity
    const attestation = { mode: 'mtls-renewal', certificate, signature: signNonce(key, request.nonce) }
    return send(attestation, {}, request, identity, signal)
  }

  return {
    enroll: (source, request, signal) => enroll(source, request, signal).catch(caught),
    renew: (identity, request, signal) => renew(identity, request, signal).catch(caught),
  }
}

const failed = (why: string, asked = true): Attempt => ({
  result: err({ ...requestFailed(why).error, verdict: 'later', serverTime: null }),
  asked,
  described: {},
  skew: null,
})
