// The advice for operators on each reason and notice: what happened, and what to do.

import type { Notice, Reason } from '../../protocol/reasons.ts'

const ADVICE: Record<Reason | Notice, string> = {
  // The form of the request.
  https_only: 'The request came over http. Use the https URL.',
  body_malformed: 'The body is not the JSON that the route takes. The detail names the field.',
  body_too_large: 'The body is over 32 KiB, which no runner needs. Check what the client sends.',
  content_type: 'The request must have Content-Type: application/json.',
  mode_unknown:
    'The control plane does not know the mode. Check RUNNER_ATTESTATION_MODE, and the versions of runner and control plane.',
  route_unknown: 'Nothing is served at this path.',
  method_unknown: 'The path takes other methods: see Allow in the answer.',
  csr_invalid:
    'The CSR was refused; the detail says why. It must be one PEM block, EC P-256, with one challengePassword.',
  nonce_not_in_csr: 'The challengePassword of the CSR differs from challengeNonce. Both must be the same nonce.',
  nonce_not_bound:
    'challengeNonce is not base64url(salt ‖ SHA-256(salt ‖ SubjectPublicKeyInfo)) of the key of the CSR.',

  // Minted tokens.
  token_malformed: 'The token does not have the form of a minted one. It may be cut, quoted or of another kind.',
  token_unknown:
    'No such token was minted here. Check that the runner uses the right control plane, then mint a new one.',
  token_wrong_kind:
    'A bootstrap token was sent as a runner token or the reverse. Set RUNNER_ATTESTATION_MODE to match.',
  token_used:
    'The token was used before with another key. Mint a new one. If none of your machines used it, it was stolen: ban its enrollment.',
  token_retry_over:
    'The same key used its token after 10 minutes, or after its enrollment had renewed. Mint a new one.',
  token_expired: 'The token expired unused. Mint a new one, with a longer --ttl if machines start later than that.',
  token_revoked: 'The token was revoked. Mint a new one if the runner is to join.',

  // Kubernetes tokens.
  jws_malformed: 'The token is not a compact JWS of at most 8 KiB. Check the content of the token file.',
  jws_algorithm: 'The token is not signed with RS256 or ES256.',
  jws_header: 'The token header has crit or b64, which are not supported, or no kid.',
  issuer_unknown:
    'No cluster has this issuer. Correct its `issuer` (a trailing slash counts), or add it if it is https.',
  key_unknown:
    'The issuer has no key with this kid. It was rotated out, or the token is forged. A new key is known after an hour at most.',
  key_algorithm: 'The key of this kid does not fit the alg of the token: RS256 needs an RSA key, ES256 a P-256 key.',
  signature_invalid: 'The key of this kid does not verify the signature.',
  audience_mismatch:
    'The token has another audience. Set `audience` of the projected volume to one of the cluster entry.',
  token_time:
    'The token is expired, not yet valid or issued in the future. Check the clocks, and that the runner reads the file again.',
  token_lifetime:
    'exp and iat are missing, out of order or further apart than maxTokenLifetime. Lower expirationSeconds, or raise maxTokenLifetime (24h at most).',
  workload_claims:
    'sub and the kubernetes.io claims are missing or disagree. Use a projected token, not a legacy Secret token.',
  pod_claim: 'The token names no pod. Use a token projected into a pod.',
  node_claim:
    'The token names no node. Kubernetes 1.32 and later name it. `node: optional` on a cluster without deny.nodes accepts such tokens.',
  keys_never_fetched:
    'The key set of the cluster was never fetched. Make the issuer reachable from outside, or set jwksURI, jwksFile or binding.',
  keys_stale:
    'The key set of the cluster could not be refreshed for 24 hours and was discarded. Make the issuer reachable.',
  keys_none_usable: 'The issuer publishes no usable key (RSA from 2048 bits or P-256, with a kid). Check its JWKS.',
  keys_shared:
    'Two clusters publish the same signing key, so each could forge tokens of the other. Give one of them its own key.',
  keys_fetch_failed:
    'The key set could not be fetched; the detail says why. After 401 or 403, let anonymous callers read it, or set jwksURI or jwksFile.',
  key_directory_unavailable:
    'The KeyDirectory object did not answer. Runners retry by themselves. Check the Cloudflare status.',
  jwks_uri_refused: 'The discovery document names another host. Set jwksURI or jwksFile on the cluster.',

  // AWS.
  aws_region: 'The region is not in aws.regions. Set AWS_REGION to one of them, or add it if it is a commercial one.',
  aws_body: 'The signed body is not that of GetCallerIdentity.',
  aws_authorization: 'The Authorization header is not a SigV4 signature in headers.',
  aws_scope: 'The request was signed for another region, service or day. Sign for sts in AWS_REGION; check the clock.',
  aws_headers: 'The header in the event is there twice, malformed, or signed or unsigned where it must not be.',
  aws_nonce: 'x-muster-nonce is not signed, or differs from challengeNonce.',
  aws_clock: 'x-amz-date is more than 5 minutes off. Set the clock of the runner.',
  sts_signature: 'STS says that the signature does not match. The secret key is wrong, or a proxy changed the request.',
  sts_clock: 'STS says that the signature is expired or not yet current. Set the clock of the runner.',
  sts_expired: 'STS says that the session token is expired. The runner must refresh its credentials.',
  sts_key_unknown: 'STS does not know the access key or its token. It was deleted, or belongs to another partition.',
  sts_refused: 'STS refused the call. The event has its error code.',
  sts_answer: 'The answer of STS is not a valid GetCallerIdentityResponse.',
  aws_principal: 'The caller is a root user, a federated user or of another partition. Use a role or a user.',
  sts_unavailable:
    'STS did not answer, throttled or failed. Runners retry by themselves. Check the AWS status of the region.',

  // Tenant, runner ID, bans.
  tenant_none: 'The identity is proven, but the trust file maps it to no tenant. Add it under `tenants` and deploy.',
  runner_id_none:
    'The Connect door names runners by a runner token, or by the ServiceAccount that the cluster entry itself names, on a node. Enroll instead, or set namespace and serviceAccount of the entry.',
  runner_id_mismatch:
    'The runner asked for another runner ID than the one that it proved. Leave --runner-id out, or correct it.',
  node_denied: 'The node is in deny.nodes of its cluster.',
  banned: 'A ban names this identity: see `muster bans` and `muster unban`.',

  // Renewal and connection.
  certificate_invalid: 'The certificate was not accepted: of another CA or trust domain, damaged, or not for a runner.',
  certificate_missing: 'The connection has no certificate and no proof.',
  certificate_expired: 'The certificate is expired or not yet valid. The runner must renew before it connects.',
  renewal_signature: 'The nonce is not signed with the certificate’s key.',
  proof_invalid: 'The signed challenge is expired, used before or wrong.',
  proofs_differ: 'The TLS certificate and the signed challenge name different certificates. Send one proof.',
  early_data: 'The request came as TLS early data, which can be replayed. The client must send it again.',
  renewal_window: 'The certificate expired more than 6 minutes ago. The runner must enroll again.',
  reattest: 'The enrollment is older than certificate.reattest. The runner enrolls again by itself.',
  lineage_missing: 'There is no record of this enrollment: it ended long ago, or storage was reset. Enroll again.',
  enrollment_ended: 'The enrollment was ended before, by a clone or a revocation. The runner must enroll again.',
  clone_suspected:
    'A certificate outside the lineage was used. It was stolen, or a machine was rolled back to a snapshot, an identity directory was restored, or two runners share one. Find out which. Unless onClone is refuse, the enrollment has ended.',
  superseded: 'An old renewal request came again and changed nothing. If it recurs, find who keeps requests.',
  standing_lost: 'The trust file no longer maps this identity to the tenant of its certificate.',

  // The control plane.
  rate_limited: 'Too many requests or refusals of this client in a short time.',
  ca_not_configured:
    'The certificate authority cannot be used; the detail says why. `muster ca init` makes one, `wrangler secret put` sets CA_KEY and CA_CERT.',
  slash_in_runner_id:
    'A live runner token has an ID with `/`, which is reserved while clusters are registered. Revoke it.',
  storage_unavailable:
    'The database or an object did not answer. Runners retry by themselves. Check the Cloudflare status.',
  internal: 'A bug. The log line with the same request id has the error.',

  // Notices.
  runner_id_shared:
    'Another enrollment of this runner ID has a live certificate. The runner may have restarted, two machines may share one token, or a token was stolen. Both go on. Ban the one that should not be there.',
}

const isExplained = (text: string): text is Reason | Notice => Object.hasOwn(ADVICE, text)

/** The advice for a reason or a notice; null for any other text. */
export const adviceOf = (text: string): string | null => (isExplained(text) ? ADVICE[text] : null)
