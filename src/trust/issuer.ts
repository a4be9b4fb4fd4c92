// Where a cluster's tokens come from: `issuer`, `eks` or `gke` of its entry → the exact `iss`. Pure.

import { quote } from '../protocol/labels.ts'
import type { KubernetesMode } from '../protocol/modes.ts'
import type { Field, Fields, Reader } from './document.ts'
import { httpsFault, isAwsRegion, isEksId, isGoogleName, isGoogleProject, REGION } from './grammar.ts'

export interface Origin {
  /** Where the issuer stands, or what it was derived from. */
  readonly field: Field
  readonly issuer: string
  readonly mode: KubernetesMode
}

const GKE_ISSUER = 'https://container.googleapis.com/v1/projects/'

/** Exactly one of the three; each that is there is read, for its mistakes. */
export function readOrigin(reader: Reader, field: Field, fields: Fields<'cluster'>): Origin | null {
  const { issuer, eks, gke } = fields
  const origins = [
    issuer && { at: issuer, origin: readIssuer(reader, issuer) },
    eks && { at: eks, origin: readEks(reader, eks) },
    gke && { at: gke, origin: readGke(reader, gke) },
  ].filter((given) => given !== undefined)
  const [only, second] = origins
  if (only === undefined) return reader.fault(field, `${field.path} needs one of issuer, eks, gke`)
  if (second !== undefined) return reader.fault(second.at, `${field.path} takes only one of issuer, eks, gke`)
  return only.origin
}

function readIssuer(reader: Reader, field: Field): Origin | null {
  const issuer = reader.text(field)
  if (issuer === null) return null
  const fault = issuer.includes('/.well-known')
    ? 'is a discovery document: leave out /.well-known and what follows'
    : httpsFault(issuer)
  return fault === null
    ? { field, issuer, mode: modeOf(issuer) }
    : reader.fault(field, `${field.path} ${quote(issuer)} ${fault}`)
}

/** Whose issuer it is, by the forms that EKS and GKE give theirs. */
function modeOf(issuer: string): KubernetesMode {
  if (issuer.startsWith(GKE_ISSUER)) return 'gke-oidc'
  const [oidc, eks, region = '', ...zone] = (URL.parse(issuer)?.host ?? '').split('.')
  return oidc === 'oidc' && eks === 'eks' && isAwsRegion(region) && zone.join('.') === 'amazonaws.com'
    ? 'eks-oidc'
    : 'kubernetes'
}

function readEks(reader: Reader, field: Field): Origin | null {
  const fields = reader.fields('eks', field)
  if (fields === null) return null
  const region = reader.required(field, 'region', fields.region, isAwsRegion, REGION)
  const id = reader.required(field, 'id', fields.id, isEksId, 'the id at the end of the cluster’s issuer')
  return region === null || id === null
    ? null
    : { field, issuer: `https://oidc.eks.${region}.amazonaws.com/id/${id}`, mode: 'eks-oidc' }
}

function readGke(reader: Reader, field: Field): Origin | null {
  const fields = reader.fields('gke', field)
  if (fields === null) return null
  const project = reader.required(field, 'project', fields.project, isGoogleProject, 'a Google Cloud project ID')
  const location = reader.required(field, 'location', fields.location, isGoogleName, 'a region or zone of Google Cloud')
  const cluster = reader.required(field, 'cluster', fields.cluster, isGoogleName, 'the name of a GKE cluster')
  return project === null || location === null || cluster === null
    ? null
    : { field, issuer: `${GKE_ISSUER}${project}/locations/${location}/clusters/${cluster}`, mode: 'gke-oidc' }
}
