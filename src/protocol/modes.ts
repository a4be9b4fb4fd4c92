// The table of modes, one row each. docs/contributing.md lists the other files that a mode has. No I/O.

export interface ModeTraits {
  /** What the OU of a certificate names beside the mode: nothing, an AWS account, or a cluster of the trust file. */
  readonly source: 'none' | 'account' | 'cluster'
  /** The evidence is a token minted here. Its id is the identity, and revoking it ends its enrollments. */
  readonly minted: boolean
  /** The evidence can be used again, so a runner that lost its certificate enrolls again without a restart. */
  readonly reusable: boolean
  /** The evidence comes from a platform, and must be given again after `certificate.reattest`. */
  readonly reattests: boolean
  /** A runner can enroll with it. Otherwise an operator issues the certificate. */
  readonly configurable: boolean
  /** No enrollment came before its certificate: the first use of the certificate starts the lineage. */
  readonly startsLineage: boolean
  /** How many refusals in a row end the attempts of a runner with this evidence. */
  readonly patience: number
}

/** A token or certificate that is refused three times will not be accepted later: only another one helps. */
export const THREE_TRIES = 3
/** Evidence of a platform may be accepted later, after a deploy of the trust file or the end of a key rotation. */
const ENDLESS = Number.POSITIVE_INFINITY

const KUBERNETES = {
  source: 'cluster',
  minted: false,
  reusable: true,
  reattests: true,
  configurable: true,
  startsLineage: false,
  patience: ENDLESS,
} as const

/** One verifier with three names. */
const KUBERNETES_MODES = { 'gke-oidc': KUBERNETES, 'eks-oidc': KUBERNETES, kubernetes: KUBERNETES }

/** In the order of messages. */
export const MODES = {
  'bootstrap-token': {
    source: 'none',
    minted: true,
    reusable: false,
    reattests: false,
    configurable: true,
    startsLineage: false,
    patience: THREE_TRIES,
  },
  'runner-token': {
    source: 'none',
    minted: true,
    reusable: true,
    reattests: false,
    configurable: true,
    startsLineage: false,
    patience: THREE_TRIES,
  },
  'aws-sts': {
    source: 'account',
    minted: false,
    reusable: true,
    reattests: true,
    configurable: true,
    startsLineage: false,
    patience: ENDLESS,
  },
  ...KUBERNETES_MODES,
  provisioned: {
    source: 'none',
    minted: false,
    reusable: false,
    reattests: false,
    configurable: false,
    startsLineage: true,
    patience: THREE_TRIES,
  },
} as const satisfies Record<string, ModeTraits>

/** A mode in the OU of a certificate: how its holder proved itself at enrollment. */
export type ProvenMode = keyof typeof MODES
type ModesWith<T extends Partial<ModeTraits>> = {
  [M in ProvenMode]: (typeof MODES)[M] extends T ? M : never
}[ProvenMode]

/** A mode that a runner can enroll with. */
export type ConfigurableMode = ModesWith<{ configurable: true }>
/** The names of the one Kubernetes verifier. */
export type KubernetesMode = keyof typeof KUBERNETES_MODES
/** A mode whose certificates come without an enrollment. */
type LineageStartingMode = ModesWith<{ startsLineage: true }>

export const isMode = (name: string): name is ProvenMode => Object.hasOwn(MODES, name)

export const mayStartLineage = (mode: ProvenMode): mode is LineageStartingMode => MODES[mode].startsLineage

/** Those whose certificates come without an enrollment. */
export const LINEAGE_STARTING_MODES: readonly ProvenMode[] = Object.keys(MODES).filter(isMode).filter(mayStartLineage)

export const CONFIGURABLE_MODES: readonly ConfigurableMode[] = Object.keys(MODES)
  .filter(isMode)
  .filter((mode): mode is ConfigurableMode => MODES[mode].configurable)
