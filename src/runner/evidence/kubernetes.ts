// Reads the evidence of the Kubernetes modes: the token that the kubelet projects into the pod, read anew at every use.

import type { KubernetesMode } from '../../protocol/modes.ts'
import { ok } from '../../protocol/result.ts'
import type { EvidenceMode } from './evidence.ts'
import { fileEvidence, RUNNER_VARIABLES, readGivenToken, type TokenUse } from './given-token.ts'

/** The variables of the two modes that have their own. */
export const PATH_VARIABLES = ['RUNNER_GKE_TOKEN_PATH', 'RUNNER_EKS_TOKEN_PATH'] as const

export const gkeOidc = projected('gke-oidc', [PATH_VARIABLES[0]], '/var/run/secrets/tokens/gke-oidc/token')
export const eksOidc = projected('eks-oidc', [PATH_VARIABLES[1]], '/var/run/secrets/tokens/eks-oidc/token')
export const kubernetes = projected('kubernetes', RUNNER_VARIABLES.files, '/var/run/secrets/muster/runner/token')

function projected(mode: KubernetesMode, files: readonly string[], path: string): EvidenceMode {
  return {
    variables: files,
    help:
      mode === 'kubernetes'
        ? `
                             kubernetes: default ${path}`
        : `
  ${files.join()}      ${mode}: default ${path}`,
    read: (settings, given) =>
      readGivenToken(settings, { tokens: [], files }, given, () => projectedUse(mode)) ??
      ok(fileEvidence(`RUNNER_ATTESTATION_MODE=${mode}`, path, projectedUse(mode), given)),
  }
}

export const projectedUse = (mode: KubernetesMode): TokenUse => ({
  mode,
  jwsMode: mode,
  missing: (path, kind) => missing(mode, path, kind),
})

function missing(mode: KubernetesMode, path: string, kind: 'absent' | 'empty'): string {
  const setting = `RUNNER_ATTESTATION_MODE=${mode}`
  if (kind === 'empty') return `${setting}: projected token at ${path} is empty`
  return mode === 'gke-oidc'
    ? `${setting}: failed to read projected KSA token at ${path} (is the Workload Identity token volume mounted?)`
    : `${setting}: failed to read projected token at ${path} (is the token volume mounted?)`
}
