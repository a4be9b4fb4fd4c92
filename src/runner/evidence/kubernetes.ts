// The evidence of the Kubernetes modes: the token that the kubelet projects into the pod, read anew at every use.

import type { KubernetesMode } from '../../protocol/modes.ts'
import { ok } from '../../protocol/result.ts'
import { isCompactJws } from '../../protocol/tokens.ts'
import type { EvidenceMode, EvidenceSource } from './evidence.ts'
import { fileToken, TOKEN_FILE_VARIABLES, type TokenFault, tokenEvidence } from './token.ts'

export const gkeOidc: EvidenceMode = {
  variables: ['RUNNER_GKE_TOKEN_PATH'],
  help: `
  RUNNER_GKE_TOKEN_PATH      gke-oidc: default /var/run/secrets/tokens/gke-oidc/token`,
  read: (settings, { fileFlag }) =>
    projected(
      'gke-oidc',
      fileFlag ?? settings.text('RUNNER_GKE_TOKEN_PATH') ?? '/var/run/secrets/tokens/gke-oidc/token',
    ),
}

export const eksOidc: EvidenceMode = {
  variables: ['RUNNER_EKS_TOKEN_PATH'],
  help: `
  RUNNER_EKS_TOKEN_PATH      eks-oidc: default /var/run/secrets/tokens/eks-oidc/token`,
  read: (settings, { fileFlag }) =>
    projected(
      'eks-oidc',
      fileFlag ?? settings.text('RUNNER_EKS_TOKEN_PATH') ?? '/var/run/secrets/tokens/eks-oidc/token',
    ),
}

export const kubernetes: EvidenceMode = {
  variables: TOKEN_FILE_VARIABLES,
  help: `
                             kubernetes: default /var/run/secrets/muster/runner/token`,
  read: (_, { file }) => projected('kubernetes', file ?? '/var/run/secrets/muster/runner/token'),
}

const projected = (mode: KubernetesMode, path: string) =>
  ok(tokenEvidence(fileToken(path), () => mode, { path, missing: (kind) => missing(mode, path, kind) }))

/** No mode is named: what is in the file decides at each use, since it may come late. Until then a cluster will. */
export const tokenOfEitherKind = (path: string): EvidenceSource =>
  tokenEvidence(fileToken(path), (token) => (token === null || isCompactJws(token) ? 'kubernetes' : 'runner-token'), {
    path,
    missing: (kind) => missing('kubernetes', path, kind),
  })

function missing(mode: KubernetesMode, path: string, kind: TokenFault['kind']): string {
  const setting = `RUNNER_ATTESTATION_MODE=${mode}`
  if (kind === 'empty') return `${setting}: projected token at ${path} is empty`
  return mode === 'gke-oidc'
    ? `${setting}: failed to read projected KSA token at ${path} (is the Workload Identity token volume mounted?)`
    : `${setting}: failed to read projected token at ${path} (is the token volume mounted?)`
}
