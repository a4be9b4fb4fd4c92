// The table of modes, one row each. docs/contributing.md lists the other files that a mode has. No I/O.

export interface ModeTraits {
  /** What the OU of a certificate names beside the mode: nothing, an AWS account, or a cluster of the trust file. */
  readonly source: 'none' | 'account' | 'cluster'
  /** The evidence is a token minted here. Its id is the identity, and revoking it ends its enrollments. */
  readonly minted: boolean
  /** The evidence can be used again, so a runner that lost its certificate enrolls again without a restart. */
  readonly reusable: boolean
  /** The evidence is a platform's, and must be given again after `certificate.reattest`. */
  readonly reattests: boolean
  /** A runner can enroll with it. Otherwise an operator issues the certificate. */
  readonly configurable: boolean
}

const KUBERNETES = { source: 'cluster', minted: false, reusable: true, reattests: true, configurable: true } as const

/** In the order of messages. */
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

/** A mode in the OU of a certificate: how its holder proved itself at enrollment. */
export type ProvenMode = keyof typeof MODES
type ModesWith<T extends Partial<ModeTraits>> = {
  [M in ProvenMode]: (typeof MODES)[M] extends T ? M : never
}[ProvenMode]

/** A mode that a runner can enroll with. */
export type ConfigurableMode = ModesWith<{ configurable: true }>
/** The names of the one Kubernetes verifier. */
export type KubernetesMode = ModesWith<{ source: 'cluster' }>

export const isMode = (name: string): name is ProvenMode => Object.hasOwn(MODES, name)

export const isKubernetesMode = (mode: ProvenMode): mode is KubernetesMode => MODES[mode].source === 'cluster'

export const CONFIGURABLE_MODES: readonly ConfigurableMode[] = Object.keys(MODES)
  .filter(isMode)
  .filter((mode): mode is ConfigurableMode => MODES[mode].configurable)
