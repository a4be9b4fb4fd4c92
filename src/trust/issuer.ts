// Declares `issuer`, `eks` and `gke` of a cluster, and derives the exact `iss` of its tokens. Pure.

import type { KubernetesMode } from '../protocol/modes.ts'
import type { FieldsOf, Place, Value, ValueOf } from './declaration.ts'
import { AWS_REGION, EKS_ID, GKE_CLUSTER, GOOGLE_LOCATION, GOOGLE_PROJECT, ISSUER, isAwsRegion } from './grammar.ts'

/** `value`: the issuer, byte for byte. The place is that of `issuer`, `eks` or `gke`. */
export interface Origin extends Place {
  readonly value: string
  readonly mode: KubernetesMode
}

export const ORIGIN_FIELDS = {
  issuer: { kind: 'text', description: '`iss` of its tokens, byte for byte.', grammar: ISSUER },
  eks: {
    kind: 'object',
    description: 'An EKS cluster, in place of its issuer.',
    fields: {
      region: { kind: 'text', required: true, description: 'Region of the cluster.', grammar: AWS_REGION },
      id: { kind: 'text', required: true, description: 'The id at the end of the issuer.', grammar: EKS_ID },
    },
  },
  gke: {
    kind: 'object',
    description: 'A GKE cluster, in place of its issuer.',
    fields: {
      project: { kind: 'text', required: true, description: 'Google Cloud project.', grammar: GOOGLE_PROJECT },
      location: { kind: 'text', required: true, description: 'Region or zone.', grammar: GOOGLE_LOCATION },
      cluster: { kind: 'text', required: true, description: 'Name of the cluster.', grammar: GKE_CLUSTER },
    },
  },
} as const satisfies Readonly<Record<string, Value>>

/** An entry has one of the three. */
export const ORIGIN_ONE_OF = ['issuer', 'eks', 'gke'] as const

const GKE_ISSUER = 'https://container.googleapis.com/v1/projects/'

/** Null where it is a mistake, or not exactly one of the three. */
export function originOf({ issuer, eks, gke }: FieldsOf<typeof ORIGIN_FIELDS>): Origin | null {
  const [given, second] = [issuer, eks, gke].filter((field) => field !== undefined)
  if (given === undefined || second !== undefined) return null
  const place = { path: given.path, offset: given.offset }
  if (issuer?.value) return { ...place, value: issuer.value, mode: modeOf(issuer.value) }
  const value = (eks?.value && eksIssuer(eks.value)) || (gke?.value && gkeIssuer(gke.value))
  return value ? { ...place, value, mode: eks === undefined ? 'gke-oidc' : 'eks-oidc' } : null
}

/** The mode, by the forms of EKS's and GKE's issuers. */
function modeOf(issuer: string): KubernetesMode {
  if (issuer.startsWith(GKE_ISSUER)) return 'gke-oidc'
  const [oidc, eks, region = '', ...zone] = (URL.parse(issuer)?.host ?? '').split('.')
  return oidc === 'oidc' && eks === 'eks' && isAwsRegion(region) && zone.join('.') === 'amazonaws.com'
    ? 'eks-oidc'
    : 'kubernetes'
}

const eksIssuer = ({ region, id }: ValueOf<typeof ORIGIN_FIELDS.eks>): string | null =>
  region.value && id.value && `https://oidc.eks.${region.value}.amazonaws.com/id/${id.value}`

const gkeIssuer = ({ project, location, cluster }: ValueOf<typeof ORIGIN_FIELDS.gke>): string | null =>
  project.value &&
  location.value &&
  cluster.value &&
  `${GKE_ISSUER}${project.value}/locations/${location.value}/clusters/${cluster.value}`
