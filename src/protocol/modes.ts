// The names of the ways in. No I/O.

/** What a runner may be configured with. */
export const CONFIGURABLE_MODES = [
  'bootstrap-token',
  'runner-token',
  'aws-sts',
  'gke-oidc',
  'eks-oidc',
  'kubernetes',
] as const
export type ConfigurableMode = (typeof CONFIGURABLE_MODES)[number]

/** The three names of the one Kubernetes verifier. */
export type KubernetesMode = 'gke-oidc' | 'eks-oidc' | 'kubernetes'

/** What a certificate's OU names: how its holder once proved itself. */
export type ProvenMode = ConfigurableMode | 'provisioned'
