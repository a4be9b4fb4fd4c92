// What an attestor may have proven: facts, never an identity. Pure types.

import type { KubernetesMode } from '../protocol/modes.ts'

export interface BootstrapTokenClaims {
  readonly mode: 'bootstrap-token'
  readonly tokenId: string
  /** The tenant that the token was minted for. */
  readonly tenant: string
}

export interface RunnerTokenClaims {
  readonly mode: 'runner-token'
  readonly tokenId: string
  readonly tenant: string
  readonly runnerId: string
}

export interface AwsClaims {
  readonly mode: 'aws-sts'
  readonly account: string
  readonly arn: string
  readonly principal: { readonly kind: 'role' | 'user'; readonly name: string }
}

export interface KubernetesClaims {
  /** The mode of the registered cluster's kind, whatever mode the token was sent under. */
  readonly mode: KubernetesMode
  readonly cluster: string
  readonly namespace: string
  readonly serviceAccount: string
  readonly pod: string
  /** Null only where the cluster entry says `node: optional`. */
  readonly node: string | null
}

/** A certificate from the operator's own CA folder, `muster ca issue`. */
export interface ProvisionedClaims {
  readonly mode: 'provisioned'
  readonly tenant: string
}

/** What is kept for the life of an enrollment and decided anew at every renewal and connection. */
export type Claims = BootstrapTokenClaims | RunnerTokenClaims | AwsClaims | KubernetesClaims | ProvisionedClaims
