// The Kubernetes modes in the trust file: `clusters`, and the ServiceAccounts under each tenant's `kubernetes`.

import { quote } from '../../protocol/characters.ts'
import type { KubernetesMode } from '../../protocol/modes.ts'
import { refuse } from '../../protocol/refusals.ts'
import { ok } from '../../protocol/result.ts'
import type { Seconds } from '../../protocol/time.ts'
import type { Given, ListValue, Place, ValueOf } from '../declaration.ts'
import { isPrivateAddress, NAME_IN_FILE, NAMESPACE, WORKLOAD_NAME } from '../grammar.ts'
import type { KeyAccess } from '../key-source.ts'
import type { MappedIdentities, TenantMappings } from '../mapped-identities.ts'
import type { Reader } from '../reader.ts'
import type { TrustMode } from './mode.ts'

export interface KubernetesClaims {
  /** The mode of the registered cluster, whichever mode the token was sent under. */
  readonly mode: KubernetesMode
  readonly cluster: string
  readonly namespace: string
  readonly serviceAccount: string
  readonly pod: string
  /** Null only where the cluster entry says `node: optional`. */
  readonly node: string | null
}

/** A registered cluster, as the Worker uses it. */
export interface Cluster extends KeyAccess {
  readonly name: string
  readonly mode: KubernetesMode
  readonly issuer: string
  readonly audiences: readonly string[]
  readonly maxTokenLifetime: Seconds
  /** The ServiceAccount that the entry itself names; null where it names none. Runner IDs are for this one alone. */
  readonly workload: Workload | null
  readonly nodeOptional: boolean
  readonly denyNodes: readonly string[]
}

/** The exact name of a ServiceAccount. */
export interface Workload {
  readonly namespace: string
  readonly serviceAccount: string
}

/** Shorthands (`project`) and Cluster's shape are expanded: one row for each cluster and ServiceAccount. */
export interface KubernetesMapping extends Workload {
  readonly tenant: string
  readonly cluster: string
}

export interface KubernetesTrust {
  readonly clusters: readonly Cluster[]
  readonly kubernetesMappings: readonly KubernetesMapping[]
}

export const kubernetes: TrustMode<KubernetesClaims, KubernetesTrust> = {
  proven: ({ cluster, ...workload }) => ({ source: cluster, identity: subOf(workload) }),
  place({ clusters, kubernetesMappings }, claims) {
    const { node } = claims
    const cluster = clusters.find(({ name }) => name === claims.cluster)
    if (cluster === undefined) return refuse('issuer_unknown')
    const mapping = kubernetesMappings.find((m) => m.cluster === claims.cluster && isSameWorkload(m, claims))
    if (mapping === undefined) return refuse('tenant_none')
    if (node !== null && cluster.denyNodes.includes(node)) return refuse('node_denied', { detail: node })
    // The admission policy guards the entry's own ServiceAccount alone: whoever may create a pod under another one
    // chooses its node.
    const isOwn = cluster.workload !== null && isSameWorkload(cluster.workload, claims)
    return ok({
      tenant: mapping.tenant,
      runnerId: isOwn && node !== null ? workloadRunnerId(claims.cluster, node) : null,
    })
  },
  /** Runners of one ServiceAccount are told apart by their node. */
  instance: ({ cluster, node, pod }) => `${cluster}/${node ?? pod}`,
}

const isSameWorkload = (a: Workload, b: Workload): boolean =>
  a.namespace === b.namespace && a.serviceAccount === b.serviceAccount

const subOf = ({ namespace, serviceAccount }: Workload): string =>
  `system:serviceaccount:${namespace}:${serviceAccount}`

/** `<cluster>/<node>`, each `.` of the node `_`: RFC 1123 names hold neither `_` nor `/`, so no two nodes meet. */
export const workloadRunnerId = (cluster: string, node: string): string => `${cluster}/${node.replaceAll('.', '_')}`

export const KUBERNETES_MAPPINGS = {
  kind: 'list',
  description: 'ServiceAccounts of registered clusters.',
  default: [],
  of: {
    kind: 'object',
    fields: {
      cluster: { kind: 'text', description: 'Name of an entry of `clusters`.', grammar: NAME_IN_FILE },
      project: { kind: 'text', description: 'Every gke: entry of this project.', grammar: NAME_IN_FILE },
      namespace: { kind: 'text', required: true, description: 'Exact name of the namespace.', grammar: NAMESPACE },
      serviceAccount: {
        kind: 'text',
        required: true,
        description: 'Exact name of the ServiceAccount.',
        grammar: WORKLOAD_NAME,
      },
    },
    oneOf: ['cluster', 'project'],
  },
} as const satisfies ListValue

type Mapping = ValueOf<(typeof KUBERNETES_MAPPINGS)['of']>

/** An entry of `clusters`, as mappings refer to it. */
export interface ClusterEntry extends Place {
  /** Valid or not. */
  readonly name: string | null
  /** The Google Cloud project of a `gke:` entry. */
  readonly project: string | null
  /** The ServiceAccount of an entry in Cluster's shape, which enrolls into the bootstrap tenant. */
  readonly workload: Workload | null
}

/** Null where one of its parts is missing or wrong. */
export function workloadOf(fields: {
  readonly namespace: Given<string> | undefined
  readonly serviceAccount: Given<string> | undefined
}): Workload | null {
  const { namespace, serviceAccount } = fields
  return namespace?.value && serviceAccount?.value
    ? { namespace: namespace.value, serviceAccount: serviceAccount.value }
    : null
}

/** `bootstrapTenant` null: it is a mistake, and nothing can clash with it. */
export function compileKubernetesMappings(
  reader: Reader,
  mapped: MappedIdentities,
  clusters: readonly ClusterEntry[],
  bootstrapTenant: string | null,
  tenants: readonly TenantMappings<ValueOf<typeof KUBERNETES_MAPPINGS>>[],
): KubernetesMapping[] {
  const take = (at: Place, tenant: string | null, workload: Workload | null, names: readonly string[]) =>
    names.flatMap((cluster) => {
      if (tenant === null || workload === null) return []
      const identity = `${workload.namespace}/${workload.serviceAccount} of cluster ${cluster}`
      return mapped.add(identity, tenant, at) ? [{ tenant, cluster, ...workload }] : []
    })
  return [
    ...clusters.flatMap((entry) => take(entry, bootstrapTenant, entry.workload, namesOf([entry]))),
    ...tenants.flatMap(({ tenant, mappings }) =>
      (mappings.value ?? []).flatMap((entry) =>
        entry.value === null
          ? []
          : take(entry, tenant, workloadOf(entry.value), namesOf(named(reader, entry.value, clusters))),
      ),
    ),
  ]
}

const namesOf = (entries: readonly ClusterEntry[]): string[] =>
  entries.map(({ name }) => name).filter((name) => name !== null)

/** The entries that a mapping is about: one by its name, or every `gke:` entry of a project. */
function named(reader: Reader, { cluster, project }: Mapping, clusters: readonly ClusterEntry[]): ClusterEntry[] {
  const by = cluster ?? project
  if (!by?.value || (cluster !== undefined && project !== undefined)) return []
  const nameOf = (entry: ClusterEntry) => (cluster === undefined ? entry.project : entry.name)
  const found = clusters.filter((entry) => nameOf(entry) === by.value)
  if (found.length === 0) {
    const names = new Set(clusters.map(nameOf).filter((name) => name !== null))
    const what = cluster === undefined ? 'is the project of no gke: entry' : 'is not under clusters'
    reader.fault(
      by,
      `${by.path} ${quote(by.value)} ${what}; there is ${[...names].map((name) => quote(name)).join(', ') || 'none'}`,
    )
  }
  return found
}

/** Notes on clusters that nobody can enroll from, and on those whose keys a deployed Worker cannot get. */
export const kubernetesNotes = ({ clusters, kubernetesMappings }: KubernetesTrust): string[] => [
  ...clusters
    .filter(({ name }) => !kubernetesMappings.some(({ cluster }) => cluster === name))
    .map(({ name }) => `cluster ${name}: no mapping names it, so nobody from it can enroll`),
  ...clusters
    .filter(({ binding, keys }) => binding === null && keys.from !== 'file')
    .flatMap(({ name, issuer, keys, ca }) => {
      if (ca !== null)
        return [`cluster ${name}: only \`muster dev\` honours its caFile; deployed, it needs binding or jwksFile`]
      const address = keys.from === 'uri' ? keys.uri : issuer
      return isPrivateAddress(address)
        ? [
            `cluster ${name}: ${address} is private, so only \`muster dev\` can reach it; deployed, it needs binding, jwksFile or a public jwksURI`,
          ]
        : []
    }),
]
