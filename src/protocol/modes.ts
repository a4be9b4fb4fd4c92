// Every mode there is, one row each: what the rest of the code must know of a mode stands here or in the files that
// docs/contributing.md names. No I/O.

/** What is true of a mode. */
export interface ModeTraits {
  /** What a certificate's OU names beside the mode: nothing, an AWS account or a cluster of the trust file. */
  readonly source: 'none' | 'account' | 'cluster'
  /** The evidence is a token that was minted here: its id is the identity, and to revoke it ends what it began. */
  readonly minted: boolean
  /** The evidence serves again: a runner that lost its certificate enrolls anew without a restart. */
  readonly reusable: boolean
  /** A platform vouches for it, for as long as `certificate.reattest` says; then it must do so again. */
  readonly reattests: boolean
  /** A runner enrolls with it. Otherwise an operator issues the certificate. */
  readonly configurable: boolean
}

const KUBERNETES = { source: 'cluster', minted: false, reusable: true, reattests: true, configurable: true } as const

/** In the order in which messages list them. */
export const MODES = {
  'bootstrap-token': { source: 'none', minted: true, reusable: false, reattests: false, configurable: true },
  'runner-token': { source: 'none', minted: true, reusable: true, reattests: false, configurable: true },
  'aws-sts': { source: 'account', minted: false, reusable: true, reattests: true, configurable: true },
  // One verifier with three names.
  'gke-oidc': KUBERNETES,
  'eks-oidc': KUBERNETES,
  kubernetes: KUBERNETES,
  provisioned: { source: 'none', minted: false, reusable: false, reattests: false, configurable: false },
} as const satisfies Record<string, ModeTraits>

/** What a certificate's OU names: how its holder once proved itself. */
export type ProvenMode = keyof typeof MODES
type ModesWith<T extends Partial<ModeTraits>> = {
  [M in ProvenMode]: (typeof MODES)[M] extends T ? M : never
}[ProvenMode]

/** What a runner may be configured with. */
export type ConfigurableMode = ModesWith<{ configurable: true }>
/** The names of the one Kubernetes verifier. */
export type KubernetesMode = ModesWith<{ source: 'cluster' }>

export const isMode = (name: string): name is ProvenMode => Object.hasOwn(MODES, name)

/** Whether a cluster vouches. */
export const isKubernetesMode = (mode: ProvenMode): mode is KubernetesMode => MODES[mode].source === 'cluster'

export const CONFIGURABLE_MODES: readonly ConfigurableMode[] = Object.keys(MODES)
  .filter(isMode)
  .filter((mode): mode is ConfigurableMode => MODES[mode].configurable)
