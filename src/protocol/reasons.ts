// The reasons of refusals, for operators: the code that the caller gets, what happened and what to do.
// Their names are stable, since logs, the event table and alerts use them.

interface ReasonEntry {
  /** What the caller gets; the type `RefusalCode` is the union of all. */
  readonly code: string
  /** What happened, and what to do. */
  readonly advice: string
}

export const REASONS = {
  // The form of the request.
  https_only: { code: 'request_malformed', advice: 'The request came over http. Use the https URL.' },
  body_malformed: {
    code: 'request_malformed',
    advice: 'The body is not the JSON that the route takes. The detail names the field.',
  },
  body_too_large: {
    code: 'request_too_large',
    advice: 'The body is over 32 KiB, which no runner needs. Check what the client sends.',
  },
  content_type: { code: 'media_type_unsupported', advice: 'The request must have Content-Type: application/json.' },
  mode_unknown: {
    code: 'request_malformed',
    advice:
      'The control plane does not know the mode. Check RUNNER_ATTESTATION_MODE, and the versions of runner and control plane.',
  },
  route_unknown: { code: 'not_found', advice: 'Nothing is served at this path.' },
  method_unknown: { code: 'method_not_allowed', advice: 'The path takes other methods: see Allow in the answer.' },
  csr_invalid: {
    code: 'csr_invalid',
    advice: 'The CSR was refused; the detail says why. It must be one PEM block, EC P-256, with one challengePassword.',
  },
  nonce_not_in_csr: {
    code: 'nonce_mismatch',
    advice: 'The challengePassword of the CSR differs from challengeNonce. Both must be the same nonce.',
  },
  nonce_not_bound: {
    code: 'nonce_mismatch',
    advice: 'challengeNonce is not base64url(salt ‖ SHA-256(salt ‖ SubjectPublicKeyInfo)) of the key of the CSR.',
  },

  // Minted tokens.
  token_malformed: {
    code: 'attestation_invalid',
    advice: 'The token does not have the form of a minted one. It may be cut, quoted or of another kind.',
  },
  token_unknown: {
    code: 'attestation_invalid',
    advice: 'No such token was minted here. Check that the runner uses the right control plane, then mint a new one.',
  },
  token_wrong_kind: {
    code: 'attestation_invalid',
    advice: 'A bootstrap token was sent as a runner token or the reverse. Set RUNNER_ATTESTATION_MODE to match.',
  },
  token_used: {
    code: 'attestation_invalid',
    advice:
      'The token was used before with another key. Mint a new one. If none of your machines used it, it was stolen: ban its enrollment.',
  },
  token_retry_over: {
    code: 'attestation_invalid',
    advice: 'The same key used its token after 10 minutes, or after its enrollment had renewed. Mint a new one.',
  },
  token_expired: {
    code: 'attestation_invalid',
    advice: 'The token expired unused. Mint a new one, with a longer --ttl if machines start later than that.',
  },
  token_revoked: {
    code: 'attestation_invalid',
    advice: 'The token was revoked. Mint a new one if the runner is to join.',
  },

  // Kubernetes tokens.
  jws_malformed: {
    code: 'attestation_invalid',
    advice: 'The token is not a compact JWS of at most 8 KiB. Check the content of the token file.',
  },
  jws_algorithm: { code: 'attestation_invalid', advice: 'The token is not signed with RS256 or ES256.' },
  jws_header: {
    code: 'attestation_invalid',
    advice: 'The token header has crit or b64, which are not supported, or no kid.',
  },
  issuer_unknown: {
    code: 'attestation_invalid',
    advice: 'No cluster has this issuer. Correct its `issuer` (a trailing slash counts), or add it if it is https.',
  },
  key_unknown: {
    code: 'attestation_invalid',
    advice:
      'The issuer has no key with this kid. It was rotated out, or the token is forged. A new key is known after an hour at most.',
  },
  key_algorithm: {
    code: 'attestation_invalid',
    advice: 'The key of this kid does not fit the alg of the token: RS256 needs an RSA key, ES256 a P-256 key.',
  },
  signature_invalid: { code: 'attestation_invalid', advice: 'The key of this kid does not verify the signature.' },
  audience_mismatch: {
    code: 'attestation_invalid',
    advice: 'The token has another audience. Set `audience` of the projected volume to one of the cluster entry.',
  },
  token_time: {
    code: 'attestation_invalid',
    advice:
      'The token is expired, not yet valid or issued in the future. Check the clocks, and that the runner reads the file again.',
  },
  token_lifetime: {
    code: 'attestation_invalid',
    advice:
      'exp and iat are missing, out of order or further apart than maxTokenLifetime. Lower expirationSeconds, or raise maxTokenLifetime (24h at most).',
  },
  workload_claims: {
    code: 'attestation_invalid',
    advice:
      'sub and the kubernetes.io claims are missing or disagree. Use a projected token, not a legacy Secret token.',
  },
  pod_claim: { code: 'attestation_invalid', advice: 'The token names no pod. Use a token projected into a pod.' },
  node_claim: {
    code: 'attestation_invalid',
    advice:
      'The token names no node. Kubernetes 1.32 and later name it. `node: optional` on a cluster without deny.nodes accepts such tokens.',
  },
  keys_never_fetched: {
    code: 'keys_unavailable',
    advice:
      'The key set of the cluster was never fetched. Make the issuer reachable from outside, or set jwksURI, jwksFile or binding.',
  },
  keys_stale: {
    code: 'keys_unavailable',
    advice:
      'The key set of the cluster could not be refreshed for 24 hours and was discarded. Make the issuer reachable.',
  },
  keys_none_usable: {
    code: 'keys_unavailable',
    advice: 'The issuer publishes no usable key (RSA from 2048 bits or P-256, with a kid). Check its JWKS.',
  },
  keys_shared: {
    code: 'keys_unavailable',
    advice:
      'Two clusters publish the same signing key, so each could forge tokens of the other. Give one of them its own key.',
  },
  keys_fetch_failed: {
    code: 'keys_unavailable',
    advice:
      'The key set could not be fetched; the detail says why. After 401 or 403, let anonymous callers read it, or set jwksURI or jwksFile.',
  },
  key_directory_unavailable: {
    code: 'upstream_unavailable',
    advice: 'The KeyDirectory object did not answer. Runners retry by themselves. Check the Cloudflare status.',
  },
  jwks_uri_refused: {
    code: 'keys_unavailable',
    advice: 'The discovery document names another host. Set jwksURI or jwksFile on the cluster.',
  },

  // AWS.
  aws_region: {
    code: 'attestation_invalid',
    advice: 'The region is not in aws.regions. Set AWS_REGION to one of them, or add it if it is a commercial one.',
  },
  aws_body: { code: 'attestation_invalid', advice: 'The signed body is not that of GetCallerIdentity.' },
  aws_authorization: {
    code: 'attestation_invalid',
    advice: 'The Authorization header is not a SigV4 signature in headers.',
  },
  aws_scope: {
    code: 'attestation_invalid',
    advice: 'The request was signed for another region, service or day. Sign for sts in AWS_REGION; check the clock.',
  },
  aws_headers: {
    code: 'attestation_invalid',
    advice: 'The header in the event is there twice, malformed, or signed or unsigned where it must not be.',
  },
  aws_nonce: { code: 'attestation_invalid', advice: 'x-muster-nonce is not signed, or differs from challengeNonce.' },
  aws_clock: {
    code: 'attestation_invalid',
    advice: 'x-amz-date is more than 5 minutes off. Set the clock of the runner.',
  },
  sts_signature: {
    code: 'attestation_invalid',
    advice: 'STS says that the signature does not match. The secret key is wrong, or a proxy changed the request.',
  },
  sts_clock: {
    code: 'attestation_invalid',
    advice: 'STS says that the signature is expired or not yet current. Set the clock of the runner.',
  },
  sts_expired: {
    code: 'attestation_invalid',
    advice: 'STS says that the session token is expired. The runner must refresh its credentials.',
  },
  sts_key_unknown: {
    code: 'attestation_invalid',
    advice: 'STS does not know the access key or its token. It was deleted, or belongs to another partition.',
  },
  sts_refused: { code: 'attestation_invalid', advice: 'STS refused the call. The event has its error code.' },
  sts_answer: { code: 'attestation_invalid', advice: 'The answer of STS is not a valid GetCallerIdentityResponse.' },
  aws_principal: {
    code: 'attestation_invalid',
    advice: 'The caller is a root user, a federated user or of another partition. Use a role or a user.',
  },
  sts_unavailable: {
    code: 'upstream_unavailable',
    advice: 'STS did not answer, throttled or failed. Runners retry by themselves. Check the AWS status of the region.',
  },

  // Tenant, runner ID, bans.
  tenant_none: {
    code: 'attestation_invalid',
    advice: 'The identity is proven, but the trust file maps it to no tenant. Add it under `tenants` and deploy.',
  },
  runner_id_none: {
    code: 'attestation_invalid',
    advice:
      'The Connect door names runners by a runner token, or by the ServiceAccount that the cluster entry itself names, on a node. Enroll instead, or set namespace and serviceAccount of the entry.',
  },
  runner_id_mismatch: {
    code: 'attestation_invalid',
    advice: 'The runner asked for another runner ID than the one that it proved. Leave --runner-id out, or correct it.',
  },
  node_denied: { code: 'attestation_invalid', advice: 'The node is in deny.nodes of its cluster.' },
  banned: { code: 'banned', advice: 'A ban names this identity: see `muster bans` and `muster unban`.' },

  // Renewal and connection.
  certificate_invalid: {
    code: 'attestation_invalid',
    advice: 'The certificate was not accepted: of another CA or trust domain, damaged, or not for a runner.',
  },
  certificate_missing: { code: 'attestation_invalid', advice: 'The connection has no certificate and no proof.' },
  certificate_expired: {
    code: 'attestation_invalid',
    advice: 'The certificate is expired or not yet valid. The runner must renew before it connects.',
  },
  renewal_signature: { code: 'attestation_invalid', advice: 'The nonce is not signed with the certificate’s key.' },
  proof_invalid: { code: 'attestation_invalid', advice: 'The signed challenge is expired, used before or wrong.' },
  proofs_differ: {
    code: 'request_malformed',
    advice: 'The TLS certificate and the signed challenge name different certificates. Send one proof.',
  },
  early_data: {
    code: 'request_malformed',
    advice: 'The request came as TLS early data, which can be replayed. The client must send it again.',
  },
  renewal_window: {
    code: 'renewal_window_passed',
    advice: 'The certificate expired more than 6 minutes ago. The runner must enroll again.',
  },
  reattest: {
    code: 'reattestation_required',
    advice: 'The enrollment is older than certificate.reattest. The runner enrolls again by itself.',
  },
  lineage_missing: {
    code: 'attestation_invalid',
    advice: 'There is no record of this enrollment: it ended long ago, or storage was reset. Enroll again.',
  },
  enrollment_ended: {
    code: 'attestation_invalid',
    advice: 'The enrollment was ended before, by a clone or a revocation. The runner must enroll again.',
  },
  clone_suspected: {
    code: 'attestation_invalid',
    advice:
      'A certificate outside the lineage was used. It was stolen, or a machine was rolled back to a snapshot, an identity directory was restored, or two runners share one. Find out which. Unless onClone is refuse, the enrollment has ended.',
  },
  superseded: {
    code: 'attestation_invalid',
    advice: 'An old renewal request came again and changed nothing. If it recurs, find who keeps requests.',
  },
  standing_lost: {
    code: 'attestation_invalid',
    advice: 'The trust file no longer maps this identity to the tenant of its certificate.',
  },

  // The control plane.
  rate_limited: { code: 'rate_limited', advice: 'Too many requests or refusals of this client in a short time.' },
  ca_not_configured: {
    code: 'not_configured',
    advice:
      'The certificate authority cannot be used; the detail says why. `muster ca init` makes one, `wrangler secret put` sets CA_KEY and CA_CERT.',
  },
  slash_in_runner_id: {
    code: 'not_configured',
    advice: 'A live runner token has an ID with `/`, which is reserved while clusters are registered. Revoke it.',
  },
  storage_unavailable: {
    code: 'upstream_unavailable',
    advice: 'The database or an object did not answer. Runners retry by themselves. Check the Cloudflare status.',
  },
  internal: { code: 'internal', advice: 'A bug. The log line with the same request id has the error.' },
} as const satisfies Record<string, ReasonEntry>

export type Reason = keyof typeof REASONS

export const isReason = (text: string): text is Reason => Object.hasOwn(REASONS, text)
