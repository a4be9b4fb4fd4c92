// Reads the evidence of the Kubernetes modes: the token that the kubelet projects into the pod, read anew at every use.

import type { KubernetesMode } from '../../protocol/modes.ts'
import { ok } from '../../protocol/result.ts'
import { isCompactJws } from '../../protocol/tokens.ts'
import { type Fields, sanitized } from '../environment/log.ts'
import type { EvidenceMode, EvidenceSource } from './evidence.ts'
import { fileToken, TOKEN_FILE_VARIABLES, type TokenFault, tokenEvidence, unverifiedClaims } from './token.ts'

export const gkeOidc = cloudCluster('gke-oidc', 'RUNNER_GKE_TOKEN_PATH')
export const eksOidc = cloudCluster('eks-oidc', 'RUNNER_EKS_TOKEN_PATH')

function cloudCluster(mode: 'gke-oidc' | 'eks-oidc', variable: string): EvidenceMode {
  const path = `/var/run/secrets/tokens/${mode}/token`
  return {
    variables: [variable],
    help: `
  ${variable}      ${mode}: default ${path}`,
    read: (settings, { fileFlag }) => projected(mode, fileFlag ?? settings.text(variable) ?? path),
  }
}

export const kubernetes: EvidenceMode = {
  variables: TOKEN_FILE_VARIABLES,
  help: `
                             kubernetes: default /var/run/secrets/muster/runner/token`,
  read: (_, { file }) => projected('kubernetes', file ?? '/var/run/secrets/muster/runner/token'),
}

function projected(mode: KubernetesMode, path: string) {
  return ok(
    tokenEvidence({
      token: fileToken(path),
      modeOf: () => mode,
      describe: claimsOf,
      file: { path, missing: (kind) => missing(mode, path, kind) },
    }),
  )
}

/** For a file without a named mode: its token decides the mode at each use. Without a token it is `kubernetes`. */
export const tokenOfEitherKind = (path: string): EvidenceSource =>
  tokenEvidence({
    token: fileToken(path),
    modeOf: (token) => (token === null || isCompactJws(token) ? 'kubernetes' : 'runner-token'),
    // A minted token has no claims.
    describe: claimsOf,
    file: { path, missing: (kind) => missing('kubernetes', path, kind) },
  })

/** The claims that most refusals are about, for the log line of one. */
function claimsOf(token: string): Fields {
  const claims = unverifiedClaims(token)
  if (claims === null) return {}
  const { iss, aud, sub, exp } = claims
  const audiences = (Array.isArray(aud) ? aud : [aud]).map((one) => sanitized(one) ?? '').filter((one) => one !== '')
  return { iss: sanitized(iss), aud: audiences, sub: sanitized(sub), exp: typeof exp === 'number' ? exp : undefined }
}

function missing(mode: KubernetesMode, path: string, kind: TokenFault['kind']): string {
  const setting = `RUNNER_ATTESTATION_MODE=${mode}`
  if (kind === 'empty') return `${setting}: projected token at ${path} is empty`
  return mode === 'gke-oidc'
    ? `${setting}: failed to read projected KSA token at ${path} (is the Workload Identity token volume mounted?)`
    : `${setting}: failed to read projected token at ${path} (is the token volume mounted?)`
}
