// The `clusters` list of the trust file: each entry read, its issuer derived, its defaults filled in.

import { quote } from '../protocol/labels.ts'
import { hours, type Seconds, seconds } from '../protocol/time.ts'
import type { Cluster } from './compiled.ts'
import { type Field, type Fields, type Reader, rawText } from './document.ts'
import { formatDuration, parseDuration } from './duration.ts'
import { isAudience, isClusterName, isLabelName, isSubdomain } from './grammar.ts'
import { type Origin, readOrigin } from './issuer.ts'
import { type KeySourceContext, readKeySource } from './key-source.ts'

export interface ClusterEntry {
  readonly field: Field
  /** As it stands, right or not: what mappings call it by. */
  readonly name: string | null
  /** The Google Cloud project of a `gke:` entry. */
  readonly project: string | null
  /** The ServiceAccount of an entry in Cluster's shape, which enrolls into the bootstrap tenant. */
  readonly workload: Workload | null
  /** Null where a mistake leaves too little of it. */
  readonly cluster: Cluster | null
}

export interface Workload {
  readonly namespace: string
  readonly serviceAccount: string
}

export interface ClusterContext extends KeySourceContext {
  /** `trustDomain`, then `alsoTrust`. */
  readonly trustDomains: readonly string[]
}

const CLUSTER_AUDIENCE = 'compass-runner'
const CLUSTER_TOKEN_LIFETIME = seconds(600)
const TOKEN_LIFETIME = seconds(3600)
const TOKEN_LIFETIME_MAX = hours(24)

export function readClusters(reader: Reader, list: Field | undefined, context: ClusterContext): ClusterEntry[] {
  const names = new Map<string, string>()
  const issuers = new Map<string, string>()
  return ((list && reader.list(list)) ?? []).flatMap((field) => {
    const fields = reader.fields('cluster', field)
    if (fields === null) return []
    const name = rawText(fields.name)
    const same = name === null ? undefined : names.get(name)
    if (name !== null) names.set(name, field.path)
    if (same !== undefined)
      reader.fault(fields.name ?? field, `${field.path} has the name ${quote(name ?? '')} of ${same}`)
    const origin = readOrigin(reader, field, fields)
    if (origin !== null) checkIssuer(reader, field, origin, issuers)
    return [readCluster(reader, field, fields, origin, context)]
  })
}

/** Issuers are compared without one trailing `/`: the cluster is found by `iss` alone. */
function checkIssuer(reader: Reader, entry: Field, { field, issuer }: Origin, taken: Map<string, string>): void {
  const bare = issuer.endsWith('/') ? issuer.slice(0, -1) : issuer
  const same = taken.get(bare)
  taken.set(bare, entry.path)
  if (same === undefined) return
  reader.fault(field, `${entry.path} has the issuer ${quote(issuer)} of ${same}: one could forge the other’s tokens`)
}

function readCluster(
  reader: Reader,
  field: Field,
  fields: Fields<'cluster'>,
  origin: Origin | null,
  context: ClusterContext,
): ClusterEntry {
  const name = reader.required(field, 'name', fields.name, isClusterName, '1 to 40 of a-z 0-9 -')
  const workload = readWorkload(reader, field, fields)
  const lifetime =
    fields.maxTokenLifetime && readDuration(reader, fields.maxTokenLifetime, CLUSTER_TOKEN_LIFETIME, TOKEN_LIFETIME_MAX)
  const policy = {
    audiences:
      readAudiences(reader, fields) ??
      (workload === null ? context.trustDomains.map((domain) => `${domain}-enroll`) : [CLUSTER_AUDIENCE]),
    maxTokenLifetime: lifetime ?? (workload === null ? TOKEN_LIFETIME : CLUSTER_TOKEN_LIFETIME),
  }
  const sources = readKeySource(reader, fields, origin, context)
  const nodes = readNodes(reader, fields)
  const entry = { field, name: rawText(fields.name), project: rawText(fields.gke, 'project'), workload }
  if (name === null || origin === null || sources === null) return { ...entry, cluster: null }
  const { issuer, mode } = origin
  return { ...entry, cluster: { name, mode, issuer, ...policy, ...sources, ...nodes } }
}

function readWorkload(reader: Reader, field: Field, fields: Fields<'cluster'>): Workload | null {
  const { namespace, serviceAccount } = fields
  if ((namespace === undefined) !== (serviceAccount === undefined)) {
    const alone = namespace ?? serviceAccount ?? field
    reader.fault(alone, `${alone.path}: namespace and serviceAccount come together or not at all`)
  }
  return readServiceAccount(reader, namespace, serviceAccount)
}

/** The exact name of a ServiceAccount; null where one of its parts is missing or wrong. */
export function readServiceAccount(
  reader: Reader,
  namespace: Field | undefined,
  serviceAccount: Field | undefined,
): Workload | null {
  const names = [
    reader.checked(namespace, isLabelName, 'the exact name of a namespace (RFC 1123 label); there are no patterns'),
    reader.checked(
      serviceAccount,
      isSubdomain,
      'the exact name of a ServiceAccount (RFC 1123 subdomain); there are no patterns',
    ),
  ] as const
  return names[0] === null || names[1] === null ? null : { namespace: names[0], serviceAccount: names[1] }
}

/** Null: left out. */
function readAudiences(reader: Reader, { audience }: Fields<'cluster'>): readonly string[] | null {
  if (audience === undefined) return null
  const fields = reader.oneOrMore(audience)
  if (fields === null) return null
  if (fields.length === 0) reader.fault(audience, `${audience.path} is empty: name an audience or leave the field out`)
  const audiences = fields.map((field) =>
    reader.checked(field, isAudience, '1 to 255 printable ASCII characters without spaces'),
  )
  return [...new Set(audiences.filter((text) => text !== null))]
}

/** A duration within bounds, both inclusive; `or` says what else the field may be. */
export function readDuration(reader: Reader, field: Field, least: Seconds, most: Seconds, or = ''): Seconds | null {
  const within = (text: string): Seconds | null => {
    const duration = parseDuration(text)
    return duration !== null && duration >= least && duration <= most ? duration : null
  }
  const bare = reader.unquoted(field)
  if (bare !== null && within(`${bare}s`) !== null)
    return reader.fault(field, `${field.path} ${bare} has no unit: write ${bare}s`)
  const what = `${or}a duration from ${formatDuration(least)} to ${formatDuration(most)}, written as 600s, 10m or 1h30m`
  const text = reader.checked(field, (given) => within(given) !== null, what)
  return text === null ? null : within(text)
}

function readNodes(reader: Reader, { node, deny }: Fields<'cluster'>): Pick<Cluster, 'nodeOptional' | 'denyNodes'> {
  const optional = reader.checked(node, (text) => text === 'optional', '`optional`, or be left out')
  const nodes = deny && reader.fields('deny', deny)?.nodes
  const denied = ((nodes && reader.list(nodes)) ?? []).map((entry) =>
    reader.checked(entry, isSubdomain, 'the name of a node (RFC 1123 subdomain)'),
  )
  if (optional !== null && nodes !== undefined) {
    const why = 'a token without a node could not be denied'
    reader.fault(nodes, `${nodes.path} and node: optional exclude each other: ${why}`)
  }
  return { nodeOptional: optional !== null, denyNodes: denied.filter((name) => name !== null) }
}
