// Declares and compiles the `clusters` list of the trust file.

import { quote } from '../protocol/characters.ts'
import type { Given, ListValue, Place, ValueOf } from './declaration.ts'
import { durationOf } from './duration.ts'
import { AUDIENCE, CLUSTER_NAME, NAMESPACE, NODE, WORKLOAD_NAME } from './grammar.ts'
import { ORIGIN_FIELDS, ORIGIN_ONE_OF, type Origin, originOf } from './issuer.ts'
import { compileKeySource, KEY_SOURCE_EXCLUSIVE, KEY_SOURCE_FIELDS } from './key-source.ts'
import { type Cluster, type ClusterEntry, workloadOf } from './modes/kubernetes.ts'
import { type Reader, valuesOf } from './reader.ts'

export const CLUSTERS = {
  kind: 'list',
  description: 'Kubernetes clusters, each found by `iss` of its tokens alone.',
  default: [],
  of: {
    kind: 'object',
    fields: {
      name: {
        kind: 'text',
        required: true,
        description: 'First segment of the runner IDs of its nodes.',
        grammar: CLUSTER_NAME,
      },
      ...ORIGIN_FIELDS,
      audience: {
        kind: 'list',
        orOne: true,
        description: 'One accepted audience, or a list.',
        of: { kind: 'text', grammar: AUDIENCE },
      },
      namespace: { kind: 'text', description: 'Exact name of the namespace.', grammar: NAMESPACE },
      serviceAccount: { kind: 'text', description: 'Exact name of the ServiceAccount.', grammar: WORKLOAD_NAME },
      maxTokenLifetime: {
        kind: 'duration',
        description: 'Upper bound on exp − iat.',
        least: '10m',
        most: '24h',
      },
      ...KEY_SOURCE_FIELDS,
      node: {
        kind: 'choice',
        of: ['optional'],
        description: 'Accept tokens without a node (Kubernetes < 1.32): no runner ID then.',
      },
      deny: {
        kind: 'object',
        description: 'What of the cluster is cut off.',
        fields: {
          nodes: {
            kind: 'list',
            description: 'At enrollment, renewal and connection.',
            of: { kind: 'text', description: 'Name of a node.', grammar: NODE },
          },
        },
      },
    },
    oneOf: ORIGIN_ONE_OF,
    together: ['namespace', 'serviceAccount'],
    exclusive: KEY_SOURCE_EXCLUSIVE,
  },
} as const satisfies ListValue

type ClusterFields = ValueOf<(typeof CLUSTERS)['of']>

export interface CompiledEntry extends ClusterEntry {
  /** Null where a mistake leaves too little to compile. */
  readonly cluster: Cluster | null
}

export interface ClusterContext {
  /** Whether the Worker will be a deployed one. */
  readonly deployed: boolean
  /** `trustDomain`, then `alsoTrust`. */
  readonly trustDomains: readonly string[]
}

export function compileClusters(
  reader: Reader,
  list: Given<ValueOf<typeof CLUSTERS>>,
  context: ClusterContext,
): CompiledEntry[] {
  const names = new Map<string, string>()
  const issuers = new Map<string, string>()
  return (list.value ?? []).flatMap((entry) => {
    const { path, value: fields } = entry
    if (fields === null) return []
    const { raw } = fields.name
    const same = raw === null ? undefined : names.get(raw)
    if (raw !== null) names.set(raw, path)
    if (same !== undefined) reader.fault(fields.name, `${path} has the name ${quote(raw ?? '')} of ${same}`)
    const origin = originOf(fields)
    if (origin !== null) checkIssuer(reader, entry, origin, issuers)
    return [compileCluster(reader, entry, fields, origin, context)]
  })
}

/** Two issuers that differ in one trailing `/` alone are the same. */
function checkIssuer(reader: Reader, { path }: Place, origin: Origin, taken: Map<string, string>): void {
  const { value: issuer } = origin
  const bare = issuer.endsWith('/') ? issuer.slice(0, -1) : issuer
  const same = taken.get(bare)
  taken.set(bare, path)
  if (same === undefined) return
  reader.fault(origin, `${path} has the issuer ${quote(issuer)} of ${same}: one could forge the other’s tokens`)
}

function compileCluster(
  reader: Reader,
  { path, offset }: Place,
  fields: ClusterFields,
  origin: Origin | null,
  { trustDomains, deployed }: ClusterContext,
): CompiledEntry {
  const workload = workloadOf(fields)
  const access = compileKeySource(reader, fields, origin, deployed)
  const nodes = compileNodes(reader, fields)
  const project = fields.gke?.value?.project.raw ?? null
  const entry = { path, offset, name: fields.name.raw, project, workload }
  if (fields.name.value === null || origin === null || access === null) return { ...entry, cluster: null }
  const ownAudiences = workload === null ? trustDomains.map((domain) => `${domain}-enroll`) : ['compass-runner']
  const audiences = fields.audience === undefined ? ownAudiences : [...new Set(valuesOf(fields.audience))]
  const cluster = {
    name: fields.name.value,
    mode: origin.mode,
    issuer: origin.value,
    audiences,
    maxTokenLifetime: fields.maxTokenLifetime?.value ?? durationOf(workload === null ? '1h' : '10m'),
    ...access,
    workload,
    ...nodes,
  }
  return { ...entry, cluster }
}

function compileNodes(reader: Reader, { node, deny }: ClusterFields): Pick<Cluster, 'nodeOptional' | 'denyNodes'> {
  const nodes = deny?.value?.nodes
  if (node?.value === 'optional' && nodes !== undefined) {
    const why = 'a token without a node could not be denied'
    reader.fault(nodes, `${nodes.path} and node: optional exclude each other: ${why}`)
  }
  return { nodeOptional: node?.value === 'optional', denyNodes: valuesOf(nodes) }
}
