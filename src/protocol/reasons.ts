// The reason of every decision, as the operator sees it: the code that the caller is told, and what to do about it.
// Codes are stable: they stand in logs, in the event table and in alerts.

import type { RefusalCode } from './refusals.ts'

interface ReasonEntry {
  readonly code: RefusalCode
  /** One sentence: what happened, and what to do next. */
  readonly advice: string
}

export const REASONS = {
  // The request itself.
  https_only: { code: 'request_malformed', advice: 'The request came over http: use the https URL.' },
  body_malformed: {
    code: 'request_malformed',
    advice: 'The body is not the JSON that the route takes: the detail names the field.',
  },
  body_too_large: {
    code: 'request_too_large',
    advice: 'The body is over 32 KiB: no honest request is; look at what the client sends.',
  },
  content_type: { code: 'media_type_unsupported', advice: 'The request must say Content-Type: application/json.' },
  mode_unknown: {
    code: 'request_malformed',
    advice: 'The mode is none that this door knows: check RUNNER_ATTESTATION_MODE and the versions of runner and door.',
  },
  route_unknown: { code: 'not_found', advice: 'Nothing is served at this path or with this method.' },
  csr_invalid: {
    code: 'csr_invalid',
    advice: 'The CSR was refused: the detail says why; it must be one PEM block, EC P-256, with one challengePassword.',
  },
  nonce_not_in_csr: {
    code: 'nonce_mismatch',
    advice: 'The challengePassword of the CSR differs from challengeNonce: send the nonce that stands in the CSR.',
  },
  nonce_not_bound: {
    code: 'nonce_mismatch',
    advice: 'challengeNonce is not base64url(salt ‖ SHA-256(salt ‖ SubjectPublicKeyInfo)) of the key of the CSR.',
  },

  // Tokens of ours.
  token_malformed: {
    code: 'attestation_invalid',
    advice: 'The token does not have the form of a minted one: it was cut, quoted or is of another kind.',
  },
  token_unknown: {
    code: 'attestation_invalid',
    advice: 'No such token was minted here: check that runner and door belong together, then mint a new one.',
  },
  token_wrong_kind: {
    code: 'attestation_invalid',
    advice: 'A bootstrap token was sent as a runner token or the reverse: set RUNNER_ATTESTATION_MODE to match.',
  },
  token_used: {
    code: 'attestation_invalid',
    advice:
      'The token was used before with another key: mint a new one; if nobody of yours used it, it was stolen: ban its enrollment.',
  },
  token_retry_over: {
    code: 'attestation_invalid',
    advice:
      'The same key came back with its token after 10 minutes or after its enrollment had gone on: mint a new token.',
  },
  token_expired: {
    code: 'attestation_invalid',
    advice: 'The token expired unused: mint a new one, with a longer --ttl if machines boot later than that.',
  },
  token_revoked: {
    code: 'attestation_invalid',
    advice: 'The token was revoked: mint a new one if the runner shall join.',
  },

  // Kubernetes tokens.
  jws_malformed: {
    code: 'attestation_invalid',
    advice: 'The token is not a compact JWS of at most 8 KiB: check what the token file holds.',
  },
  jws_algorithm: { code: 'attestation_invalid', advice: 'The token is not signed with RS256 or ES256.' },
  jws_header: {
    code: 'attestation_invalid',
    advice: 'The token header asks for what is never honoured (crit, b64) or names no kid.',
  },
  issuer_unknown: {
    code: 'attestation_invalid',
    advice:
      'No cluster of the trust file has this issuer: add it, or correct its `issuer` (one trailing slash counts).',
  },
  key_unknown: {
    code: 'attestation_invalid',
    advice:
      'The issuer has no key of this kid: it was rotated away or forged; a new key is picked up at the hourly refresh at the latest.',
  },
  key_algorithm: {
    code: 'attestation_invalid',
    advice: 'The token names a key of another kind than its alg: RS256 needs an RSA key, ES256 a P-256 key.',
  },
  signature_invalid: {
    code: 'attestation_invalid',
    advice: 'The signature does not verify with the key that it names.',
  },
  audience_mismatch: {
    code: 'attestation_invalid',
    advice:
      'The token was projected for another audience: set `audience` of the projected volume to one of the cluster entry.',
  },
  token_time: {
    code: 'attestation_invalid',
    advice:
      'The token is expired, not yet valid or issued in the future: check the clocks and that the runner reads the file anew.',
  },
  token_lifetime: {
    code: 'attestation_invalid',
    advice:
      'exp and iat are missing, out of order or further apart than maxTokenLifetime: lower expirationSeconds or raise maxTokenLifetime.',
  },
  workload_claims: {
    code: 'attestation_invalid',
    advice:
      'sub and the kubernetes.io claims are missing or disagree: use a projected token, not a legacy Secret token.',
  },
  pod_claim: { code: 'attestation_invalid', advice: 'The token names no pod: use a token projected into a pod.' },
  node_claim: {
    code: 'attestation_invalid',
    advice:
      'The token names no node: Kubernetes 1.32 or later does; `node: optional` on the cluster allows its absence.',
  },
  keys_never_fetched: {
    code: 'keys_unavailable',
    advice:
      'The key set of the cluster was never fetched: see that the issuer is reachable from outside, or set jwksURI, jwksFile or binding.',
  },
  keys_stale: {
    code: 'keys_unavailable',
    advice: 'The key set of the cluster could not be refreshed for 24 h and was discarded: make the issuer reachable.',
  },
  keys_none_usable: {
    code: 'keys_unavailable',
    advice: 'The issuer publishes no key that can be used (RSA from 2048 bits, or P-256): look at its JWKS.',
  },
  keys_shared: {
    code: 'keys_unavailable',
    advice: 'Two clusters publish one signing key, so each could forge the other: give one a key of its own.',
  },
  keys_fetch_failed: {
    code: 'keys_unavailable',
    advice:
      'The issuer did not give its key set: the detail says what it answered. 401 and 403 mean that anonymous callers may not read it: publish it, or set jwksURI or jwksFile.',
  },
  key_directory_unavailable: {
    code: 'upstream_unavailable',
    advice: 'The KeyDirectory object did not answer: runners retry by themselves; look at the Cloudflare status.',
  },
  jwks_uri_refused: {
    code: 'keys_unavailable',
    advice: 'The discovery document points to another host: set jwksURI or jwksFile on the cluster.',
  },

  // AWS.
  aws_region: {
    code: 'attestation_invalid',
    advice: 'The region is not in aws.regions of the trust file: add it there or set AWS_REGION.',
  },
  aws_body: { code: 'attestation_invalid', advice: 'The signed body is not the one GetCallerIdentity body.' },
  aws_authorization: {
    code: 'attestation_invalid',
    advice: 'The Authorization header is not a SigV4 header signature for sts in this region.',
  },
  aws_scope: {
    code: 'attestation_invalid',
    advice:
      'The request was signed for another region, service or day than it names: sign for sts in AWS_REGION, with one clock.',
  },
  aws_headers: {
    code: 'attestation_invalid',
    advice: 'The header named in the event stands twice, is malformed, or is signed or unsigned where it must not be.',
  },
  aws_nonce: { code: 'attestation_invalid', advice: 'x-muster-nonce is not signed or is not challengeNonce.' },
  aws_clock: { code: 'attestation_invalid', advice: 'x-amz-date is over 5 minutes off: set the clock of the runner.' },
  sts_signature: {
    code: 'attestation_invalid',
    advice: 'STS says that the signature does not match: the secret key is wrong or a proxy changed the request.',
  },
  sts_clock: {
    code: 'attestation_invalid',
    advice: 'STS says that the signature is expired or not yet current: set the runner’s clock.',
  },
  sts_expired: {
    code: 'attestation_invalid',
    advice: 'STS says that the session token is expired: the runner must refresh its credentials.',
  },
  sts_key_unknown: {
    code: 'attestation_invalid',
    advice: 'STS does not know the access key or its token: it was deleted or belongs to another partition.',
  },
  sts_refused: { code: 'attestation_invalid', advice: 'STS refused the call: see the error code in the event.' },
  sts_answer: { code: 'attestation_invalid', advice: 'STS did not answer with one GetCallerIdentityResponse.' },
  aws_principal: {
    code: 'attestation_invalid',
    advice: 'The caller is root, a federated user or of another partition: use a role or a user.',
  },
  sts_unavailable: {
    code: 'upstream_unavailable',
    advice:
      'STS did not answer, throttled or failed: runners retry by themselves; look at the AWS status of the region.',
  },

  // Who it is.
  tenant_none: {
    code: 'attestation_invalid',
    advice: 'Proven, but the trust file maps this identity to no tenant: add it under `tenants` and deploy.',
  },
  runner_id_mismatch: {
    code: 'attestation_invalid',
    advice:
      'The runner asked to go by another runner ID than the one that it proved: leave --runner-id out, or correct it.',
  },
  node_denied: { code: 'attestation_invalid', advice: 'The node stands under deny.nodes of its cluster.' },
  banned: { code: 'banned', advice: 'A ban names this identity: `muster bans` shows it, `muster unban` lifts it.' },

  // Renewal and connection.
  certificate_invalid: {
    code: 'attestation_invalid',
    advice:
      'The presented certificate was not accepted: not ours, not intact, of another trust domain or for another use.',
  },
  certificate_missing: {
    code: 'attestation_invalid',
    advice: 'The connection carries no client certificate and no proof.',
  },
  certificate_expired: {
    code: 'attestation_invalid',
    advice: 'The certificate is expired or not yet valid: the runner must renew before it connects.',
  },
  renewal_signature: {
    code: 'attestation_invalid',
    advice: 'The new nonce is not signed by the key of the presented certificate.',
  },
  proof_invalid: { code: 'attestation_invalid', advice: 'The signed challenge is expired, used or wrong.' },
  proofs_differ: {
    code: 'request_malformed',
    advice: 'The TLS certificate and the signed challenge name different certificates: send one proof.',
  },
  early_data: {
    code: 'request_malformed',
    advice: 'The request came as TLS early data, which can be replayed: the client must send it anew.',
  },
  renewal_window: {
    code: 'renewal_window_passed',
    advice: 'The certificate ended more than 6 minutes ago: the runner must enroll anew.',
  },
  reattest: {
    code: 'reattestation_required',
    advice: 'The enrollment is older than certificate.reattest: the runner enrolls anew by itself.',
  },
  lineage_missing: {
    code: 'attestation_invalid',
    advice:
      'There is no record of this enrollment: it ended long ago, or storage was reset; the runner must enroll anew.',
  },
  enrollment_ended: {
    code: 'attestation_invalid',
    advice: 'The enrollment was ended before, by a clone or a revocation: the runner must enroll anew.',
  },
  clone_suspected: {
    code: 'attestation_invalid',
    advice:
      'A certificate outside the lineage was used: stolen, or a machine rolled back to a snapshot, a restored identity directory, two runners on one directory. Find out which; unless onClone is refuse, the enrollment has ended.',
  },
  certificate_superseded: {
    code: 'attestation_invalid',
    advice:
      'An old renewal request came again, after its certificate had been followed by another: nothing is wrong, unless it recurs.',
  },
  standing_lost: {
    code: 'attestation_invalid',
    advice: 'The trust file no longer gives this identity the tenant of its certificate.',
  },

  // The service.
  rate_limited: { code: 'rate_limited', advice: 'This source was refused too often in a short time.' },
  ca_not_configured: {
    code: 'not_configured',
    advice: 'CA_KEY or CA_CERT is missing or they are not a pair: `muster ca init`, then `wrangler secret put`.',
  },
  slash_in_runner_id: {
    code: 'not_configured',
    advice: 'A live runner token has an ID with `/`, which is reserved while clusters are registered: revoke it.',
  },
  storage_unavailable: {
    code: 'upstream_unavailable',
    advice: 'D1 did not answer: runners retry by themselves; look at the Cloudflare status.',
  },
  internal: { code: 'internal', advice: 'A bug: the log line of the same request id has the error.' },
} as const satisfies Record<string, ReasonEntry>

export type Reason = keyof typeof REASONS

export const isReason = (text: string): text is Reason => Object.hasOwn(REASONS, text)
