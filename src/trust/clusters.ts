// The `clusters` list of the trust file: each entry read, its issuer derived, its defaults filled in.

import type { KubernetesMode } from '../protocol/modes.ts'
import { isObject, readJson } from '../protocol/strict-json.ts'
import { hours, type Seconds, seconds } from '../protocol/time.ts'
import type { Cluster, KeySource } from './compiled.ts'
import { type Field, type Fields, quote, type Reader } from './document.ts'
import { formatDuration, parseDuration } from './duration.ts'
import {
  httpsFault,
  isAudience,
  isAwsRegion,
  isBindingName,
  isClusterName,
  isEksId,
  isGoogleName,
  isLabelName,
  isPrivateAddress,
  isSubdomain,
} from './grammar.ts'

/** Reads a file that the trust file names, relative to it; a fault is a sentence. */
export type ReadFile = (path: string) => Uint8Array | { readonly fault: string }

export interface ClusterEntry {
  readonly field: Field
  readonly cluster: Cluster
  /** The ServiceAccount of an entry in Cluster's shape, which enrolls into the bootstrap tenant. */
  readonly workload: { readonly namespace: string; readonly serviceAccount: string } | null
  /** The Google Cloud project of a `gke:` entry. */
  readonly project: string | null
}

export interface ClusterContext {
  readonly readFile: ReadFile
  /** `trustDomain`, then `alsoTrust`. */
  readonly trustDomains: readonly string[]
}

const CLUSTER_AUDIENCE = 'compass-runner'
const CLUSTER_TOKEN_LIFETIME = seconds(600)
const TOKEN_LIFETIME = seconds(3600)
const TOKEN_LIFETIME_MAX = hours(24)
const GKE_ISSUER = 'https://container.googleapis.com/v1/projects/'

/** One entry, or null where a mistake leaves too little of it. */
export function readCluster(reader: Reader, field: Field, context: ClusterContext): ClusterEntry | null {
  const fields = reader.fields('cluster', field)
  if (fields === null) return null
  const name =
    fields.name === undefined
      ? reader.fault(field, `${field.path} has no name`)
      : reader.checked(fields.name, isClusterName, '1 to 40 of a-z 0-9 -')
  const origin = readOrigin(reader, field, fields)
  const workload = readWorkload(reader, field, fields)
  const audiences =
    readAudiences(reader, fields) ??
    (workload === null ? context.trustDomains.map((d) => `${d}-enroll`) : [CLUSTER_AUDIENCE])
  const lifetime =
    readLifetime(reader, fields.maxTokenLifetime) ?? (workload === null ? TOKEN_LIFETIME : CLUSTER_TOKEN_LIFETIME)
  const keys = readKeySource(reader, fields, context)
  const caFile = present(fields.caFile)
  const ca = caFile === null ? null : readCa(reader, caFile, context)
  const binding = present(fields.binding)
  const bindingName =
    binding === null ? null : reader.checked(binding, isBindingName, 'the name of a binding in wrangler.toml')
  const nodeOptional =
    fields.node !== undefined &&
    reader.checked(fields.node, (t) => t === 'optional', '`optional`, or be left out') !== null
  const denyNodes = readDeniedNodes(reader, fields)
  if (nodeOptional && fields.deny !== undefined)
    reader.fault(
      fields.deny,
      `${fields.deny.path} and node: optional exclude each other: a token without a node could not be denied`,
    )
  if (origin !== null)
    checkReachable(reader, origin, { reachable: caFile !== null || binding !== null || keys?.from !== 'discovery' })
  if (name === null || origin === null || keys === null) return null
  const { issuer, mode, project } = origin
  const cluster = {
    name,
    mode,
    issuer,
    audiences,
    maxTokenLifetime: lifetime,
    keys,
    ca,
    binding: bindingName,
    nodeOptional,
    denyNodes,
  }
  return { field, cluster, workload, project }
}

interface Origin {
  readonly field: Field
  readonly issuer: string
  readonly mode: KubernetesMode
  readonly project: string | null
}

function readOrigin(reader: Reader, field: Field, fields: Fields<'cluster'>): Origin | null {
  const given = [fields.issuer, fields.eks, fields.gke].filter((f) => f !== undefined)
  const [only, second] = given
  if (only === undefined) return reader.fault(field, `${field.path} needs one of issuer, eks, gke`)
  if (second !== undefined) return reader.fault(second, `${field.path} takes only one of issuer, eks, gke`)
  if (fields.eks !== undefined) return readEks(reader, fields.eks)
  if (fields.gke !== undefined) return readGke(reader, fields.gke)
  return readIssuer(reader, only)
}

function readIssuer(reader: Reader, field: Field): Origin | null {
  const issuer = reader.text(field)
  if (issuer === null) return null
  const fault = httpsFault(issuer)
  if (fault !== null) return reader.fault(field, `${field.path} ${quote(issuer)} ${fault}`)
  if (issuer.includes('/.well-known/'))
    return reader.fault(
      field,
      `${field.path} ${quote(issuer)} is a discovery document: leave out /.well-known/… and what follows`,
    )
  return { field, issuer, mode: modeOf(issuer), project: null }
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
  const region = demanded(
    reader,
    field,
    fields.region,
    isAwsRegion,
    'a region of the commercial partition, as us-east-1',
  )
  const id = demanded(reader, field, fields.id, isEksId, 'the id at the end of the cluster’s issuer')
  return region === null || id === null
    ? null
    : { field, issuer: `https://oidc.eks.${region}.amazonaws.com/id/${id}`, mode: 'eks-oidc', project: null }
}

function readGke(reader: Reader, field: Field): Origin | null {
  const fields = reader.fields('gke', field)
  if (fields === null) return null
  const [project, location, cluster] = [fields.project, fields.location, fields.cluster].map((f, i) =>
    demanded(
      reader,
      field,
      f,
      isGoogleName,
      `the cluster’s ${['project', 'location', 'name'][i]} as Google Cloud writes it`,
    ),
  )
  if (!project || !location || !cluster) return null
  return {
    field,
    issuer: `${GKE_ISSUER}${project}/locations/${location}/clusters/${cluster}`,
    mode: 'gke-oidc',
    project,
  }
}

function demanded(
  reader: Reader,
  parent: Field,
  field: Field | undefined,
  allowed: (t: string) => boolean,
  what: string,
): string | null {
  return field === undefined
    ? reader.fault(parent, `${parent.path} is incomplete: it needs ${what}`)
    : reader.checked(field, allowed, what)
}

function readWorkload(reader: Reader, field: Field, fields: Fields<'cluster'>): ClusterEntry['workload'] {
  const { namespace, serviceAccount } = fields
  if (namespace === undefined && serviceAccount === undefined) return null
  if (namespace === undefined || serviceAccount === undefined) {
    return reader.fault(
      namespace ?? serviceAccount ?? field,
      `${field.path}: namespace and serviceAccount come together or not at all`,
    )
  }
  const workload = {
    namespace: reader.checked(
      namespace,
      isLabelName,
      'the exact name of a namespace (RFC 1123 label); there are no patterns',
    ),
    serviceAccount: reader.checked(
      serviceAccount,
      isSubdomain,
      'the exact name of a ServiceAccount (RFC 1123 subdomain); there are no patterns',
    ),
  }
  return workload.namespace === null || workload.serviceAccount === null
    ? null
    : { namespace: workload.namespace, serviceAccount: workload.serviceAccount }
}

function readAudiences(reader: Reader, { audience }: Fields<'cluster'>): string[] | null {
  if (audience === undefined) return null
  const texts = reader.texts(audience)
  if (texts === null) return null
  if (texts.length === 0)
    return reader.fault(audience, `${audience.path} is empty: name an audience or leave the field out`)
  const audiences = texts.filter((text) => text !== null)
  const odd = audiences.find((text) => !isAudience(text))
  if (odd !== undefined)
    return reader.fault(audience, `${audience.path} ${quote(odd)} must be 1 to 255 printable characters without spaces`)
  return [...new Set(audiences)]
}

function readLifetime(reader: Reader, field: Field | undefined): Seconds | null {
  return field === undefined ? null : readDuration(reader, field, CLUSTER_TOKEN_LIFETIME, TOKEN_LIFETIME_MAX)
}

/** A duration within bounds, both inclusive. */
export function readDuration(reader: Reader, field: Field, least: Seconds, most: Seconds): Seconds | null {
  const what = `a duration from ${formatDuration(least)} to ${formatDuration(most)}, written as 600s, 10m or 1h30m`
  const text = reader.text(field)
  if (text === null) return null
  const duration = parseDuration(text)
  return duration !== null && duration >= least && duration <= most
    ? duration
    : reader.fault(field, `${field.path} ${quote(text)} must be ${what}`)
}

/** A field that counts as absent where it is empty: jwksURI, jwksFile, caFile, binding (004 writes them so). */
function present(field: Field | undefined): Field | null {
  if (field === undefined || field.node === null) return null
  return 'value' in field.node && (field.node.value === '' || field.node.value === null) ? null : field
}

function readKeySource(reader: Reader, fields: Fields<'cluster'>, { readFile }: ClusterContext): KeySource | null {
  const [uri, file] = [present(fields.jwksURI), present(fields.jwksFile)]
  if (uri !== null && file !== null) return reader.fault(file, `${file.path} and jwksURI exclude each other`)
  if (uri !== null) {
    const text = reader.text(uri)
    const fault = text === null ? null : httpsFault(text)
    if (fault !== null) return reader.fault(uri, `${uri.path} ${quote(text ?? '')} ${fault}`)
    return text === null ? null : { from: 'uri', uri: text }
  }
  if (file === null) return { from: 'discovery' }
  const path = reader.text(file)
  if (path === null) return null
  const bytes = readFile(path)
  if ('fault' in bytes) return reader.fault(file, `${file.path} ${quote(path)} ${bytes.fault}`)
  const json = readJson(bytes)
  if (!json.ok || !isObject(json.value) || !Array.isArray(json.value.keys))
    return reader.fault(file, `${file.path} ${quote(path)} is not a JWK Set: {"keys":[…]}`)
  // Public parts only: the compiled file is bundled, and a private key published by mistake must not be.
  if (json.value.keys.some((key) => isObject(key) && ('d' in key || 'k' in key)))
    return reader.fault(file, `${file.path} ${quote(path)} holds a private key: give the public keys only`)
  return { from: 'file', jwks: json.value }
}

function readCa(reader: Reader, field: Field, { readFile }: ClusterContext): string | null {
  const path = reader.text(field)
  if (path === null) return null
  const bytes = readFile(path)
  if ('fault' in bytes) return reader.fault(field, `${field.path} ${quote(path)} ${bytes.fault}`)
  const pem = new TextDecoder().decode(bytes)
  if (pem.includes('PRIVATE KEY'))
    return reader.fault(field, `${field.path} ${quote(path)} holds a private key: give the CA certificate only`)
  return pem.includes('-----BEGIN CERTIFICATE-----')
    ? pem
    : reader.fault(field, `${field.path} ${quote(path)} holds no PEM certificate`)
}

function readDeniedNodes(reader: Reader, { deny }: Fields<'cluster'>): string[] {
  const nodes = deny && reader.fields('deny', deny)?.nodes
  if (!nodes) return []
  const names = reader
    .list(nodes)
    ?.map((entry) => reader.checked(entry, isSubdomain, 'the name of a node (RFC 1123 subdomain)'))
  return names?.filter((name) => name !== null) ?? []
}

/** A Worker fetches from the public internet alone. */
function checkReachable(
  reader: Reader,
  { field, issuer }: Origin,
  { reachable }: { readonly reachable: boolean },
): void {
  if (!reachable && isPrivateAddress(issuer)) {
    reader.fault(
      field,
      `${field.path} ${quote(issuer)} cannot be fetched by a Worker: set jwksURI, jwksFile or binding (or caFile, for \`muster dev\`)`,
    )
  }
}
