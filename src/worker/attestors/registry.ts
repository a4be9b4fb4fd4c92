// Every attestor by its mode. A new mode is one file in this folder and one line here.

import type { ConfigurableMode } from '../../protocol/modes.ts'
import type { Fields } from '../../protocol/shape.ts'
import type { Attestor } from './attestor.ts'
import { type AwsSources, awsSts } from './aws-sts.ts'
import { bootstrapToken } from './bootstrap-token.ts'
import { kubernetes, type WorkloadSources } from './kubernetes.ts'
import type { FindToken } from './minted-token.ts'
import { type LeafVerifier, mtlsRenewal, type RenewalProof } from './mtls-renewal.ts'
import { runnerToken } from './runner-token.ts'

/** What the attestors use of the rest of the Worker. */
export interface AttestorSources {
  readonly findToken: FindToken
  readonly aws: AwsSources
  readonly workloads: WorkloadSources
  readonly leaves: LeafVerifier
}

export type Attestors = Readonly<Record<ConfigurableMode, Attestor>> & {
  readonly 'mtls-renewal': Attestor<Fields, RenewalProof>
}

export function makeAttestors({ findToken, aws, workloads, leaves }: AttestorSources): Attestors {
  const workload = kubernetes(workloads)
  return {
    'bootstrap-token': bootstrapToken(findToken),
    'runner-token': runnerToken(findToken),
    'aws-sts': awsSts(aws),
    'gke-oidc': workload,
    'eks-oidc': workload,
    kubernetes: workload,
    'mtls-renewal': mtlsRenewal(leaves),
  }
}
