// The reasons of refusals, each with the code that the caller gets, and the notices.
// Their names are stable, since logs, the event table and alerts use them. `muster explain` gives advice on each.

export const REASONS = {
  // The form of the request.
  https_only: 'request_malformed',
  body_malformed: 'request_malformed',
  body_too_large: 'request_too_large',
  content_type: 'media_type_unsupported',
  mode_unknown: 'request_malformed',
  route_unknown: 'not_found',
  method_unknown: 'method_not_allowed',
  csr_invalid: 'csr_invalid',
  nonce_not_in_csr: 'nonce_mismatch',
  nonce_not_bound: 'nonce_mismatch',

  // Minted tokens.
  token_malformed: 'attestation_invalid',
  token_unknown: 'attestation_invalid',
  token_wrong_kind: 'attestation_invalid',
  token_used: 'attestation_invalid',
  token_retry_over: 'attestation_invalid',
  token_expired: 'attestation_invalid',
  token_revoked: 'attestation_invalid',

  // Kubernetes tokens.
  jws_malformed: 'attestation_invalid',
  jws_algorithm: 'attestation_invalid',
  jws_header: 'attestation_invalid',
  issuer_unknown: 'attestation_invalid',
  key_unknown: 'attestation_invalid',
  key_algorithm: 'attestation_invalid',
  signature_invalid: 'attestation_invalid',
  audience_mismatch: 'attestation_invalid',
  token_time: 'attestation_invalid',
  token_lifetime: 'attestation_invalid',
  workload_claims: 'attestation_invalid',
  pod_claim: 'attestation_invalid',
  node_claim: 'attestation_invalid',
  keys_never_fetched: 'keys_unavailable',
  keys_stale: 'keys_unavailable',
  keys_none_usable: 'keys_unavailable',
  keys_shared: 'keys_unavailable',
  keys_fetch_failed: 'keys_unavailable',
  key_directory_unavailable: 'upstream_unavailable',
  jwks_uri_refused: 'keys_unavailable',

  // AWS.
  aws_region: 'attestation_invalid',
  aws_body: 'attestation_invalid',
  aws_authorization: 'attestation_invalid',
  aws_scope: 'attestation_invalid',
  aws_headers: 'attestation_invalid',
  aws_nonce: 'attestation_invalid',
  aws_clock: 'attestation_invalid',
  sts_signature: 'attestation_invalid',
  sts_clock: 'attestation_invalid',
  sts_expired: 'attestation_invalid',
  sts_key_unknown: 'attestation_invalid',
  sts_refused: 'attestation_invalid',
  sts_answer: 'attestation_invalid',
  aws_principal: 'attestation_invalid',
  sts_unavailable: 'upstream_unavailable',

  // Tenant, runner ID, bans.
  tenant_none: 'attestation_invalid',
  runner_id_none: 'attestation_invalid',
  runner_id_mismatch: 'attestation_invalid',
  node_denied: 'attestation_invalid',
  banned: 'banned',

  // Renewal and connection.
  certificate_invalid: 'attestation_invalid',
  certificate_missing: 'attestation_invalid',
  certificate_expired: 'attestation_invalid',
  renewal_signature: 'attestation_invalid',
  proof_invalid: 'attestation_invalid',
  proofs_differ: 'request_malformed',
  early_data: 'request_malformed',
  renewal_window: 'renewal_window_passed',
  reattest: 'reattestation_required',
  lineage_missing: 'attestation_invalid',
  enrollment_ended: 'attestation_invalid',
  clone_suspected: 'attestation_invalid',
  superseded: 'attestation_invalid',
  standing_lost: 'attestation_invalid',

  // The control plane.
  rate_limited: 'rate_limited',
  ca_not_configured: 'not_configured',
  slash_in_runner_id: 'not_configured',
  storage_unavailable: 'upstream_unavailable',
  internal: 'internal',
} as const satisfies Record<string, string>

export type Reason = keyof typeof REASONS

export const isReason = (text: string): text is Reason => Object.hasOwn(REASONS, text)

/** Something to look at although nothing was refused. An event has a notice or a reason, not both. */
export type Notice = 'runner_id_shared'
