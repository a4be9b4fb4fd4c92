// Every mode's part of the trust file, by name. The compiler demands a line for each row of `MODES`.

import type { ProvenMode } from '../../protocol/modes.ts'
import { type AwsTrust, awsSts } from './aws-sts.ts'
import { bootstrapToken } from './bootstrap-token.ts'
import { type KubernetesTrust, kubernetes } from './kubernetes.ts'
import type { TrustMode } from './mode.ts'
import { provisioned } from './provisioned.ts'
import { runnerToken } from './runner-token.ts'

/** What the modes need of the compiled trust file, beside the tenants. */
export interface ModeTrust extends AwsTrust, KubernetesTrust {}

export const TRUST_MODES = {
  'bootstrap-token': bootstrapToken,
  'runner-token': runnerToken,
  'aws-sts': awsSts,
  'gke-oidc': kubernetes,
  'eks-oidc': kubernetes,
  kubernetes,
  provisioned,
} as const satisfies Record<ProvenMode, TrustMode<never, ModeTrust>>

/** What an attestor proved: facts, never an identity. Kept with the enrollment and decided on anew at each use. */
export type Claims = {
  [M in ProvenMode]: (typeof TRUST_MODES)[M] extends TrustMode<infer C, never> ? C : never
}[ProvenMode]
