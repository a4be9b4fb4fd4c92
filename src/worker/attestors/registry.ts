// Every attestor by its mode. A new mode is one file in this folder and one line here.

import type { ConfigurableMode } from '../../protocol/modes.ts'
import type { Fields } from '../../protocol/shape.ts'
import type { Attestor } from './attestor.ts'
import { type AwsSources, awsSts } from './aws-sts.ts'
import { kubernetes, type WorkloadSources } from './kubernetes.ts'
import { mintedToken, type TokenProof } from './minted-token.ts'
import { type LeafVerifier, mtlsRenewal, type RenewalProof } from './mtls-renewal.ts'

/** What the attestors use of the rest of the Worker. */
export interface AttestorSources {
  readonly aws: AwsSources
  readonly workloads: WorkloadSources
  readonly leaves: LeafVerifier
}

/** Whose evidence is a token that was minted here. */
type MintedMode = 'bootstrap-token' | 'runner-token'

export type Attestors = Readonly<Record<Exclude<ConfigurableMode, MintedMode>, Attestor>> &
  Readonly<Record<MintedMode, Attestor<Fields, TokenProof>>> & {
    readonly 'mtls-renewal': Attestor<Fields, RenewalProof>
  }

export function makeAttestors({ aws, workloads, leaves }: AttestorSources): Attestors {
  const workload = kubernetes(workloads)
  return {
    'bootstrap-token': mintedToken('bootstrap'),
    'runner-token': mintedToken('runner'),
    'aws-sts': awsSts(aws),
    'gke-oidc': workload,
    'eks-oidc': workload,
    kubernetes: workload,
    'mtls-renewal': mtlsRenewal(leaves),
  }
}
