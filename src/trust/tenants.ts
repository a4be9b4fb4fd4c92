// The `tenants` list of the trust file: who maps to which tenant, exact values only, nobody to two.

import { isTenantSlug } from '../protocol/spiffe-id.ts'
import type { ClusterEntry } from './clusters.ts'
import type { AwsMapping, KubernetesMapping } from './compiled.ts'
import { type Field, type Fields, quote, type Reader } from './document.ts'
import { isAwsAccount, isIamName, isLabelName, isSubdomain } from './grammar.ts'

export const SLUG = '1 to 63 of a-z 0-9 -'

export interface Mappings {
  readonly tenants: readonly string[]
  readonly aws: readonly AwsMapping[]
  readonly kubernetes: readonly KubernetesMapping[]
}

/** Collects mappings, and says where one identity would have two tenants. */
class Claimed {
  readonly #tenants = new Map<string, { readonly tenant: string; readonly path: string }>()
  readonly #reader: Reader

  constructor(reader: Reader) {
    this.#reader = reader
  }

  /** Whether the identity is new; the same one for the same tenant counts once. */
  take(identity: string, tenant: string, field: Field): boolean {
    const taken = this.#tenants.get(identity)
    if (taken === undefined) this.#tenants.set(identity, { tenant, path: field.path })
    else if (taken.tenant !== tenant) {
      this.#reader.fault(
        field,
        `${field.path} maps ${identity} to tenant ${quote(tenant)}, but ${taken.path} maps it to ${quote(taken.tenant)}`,
      )
    }
    return taken === undefined
  }
}

export function readTenants(
  reader: Reader,
  list: Field | undefined,
  clusters: readonly ClusterEntry[],
  bootstrapTenant: string,
): Mappings {
  const claimed = new Claimed(reader)
  const tenants = new Set<string>()
  const aws: AwsMapping[] = []
  const kubernetes: KubernetesMapping[] = []
  const takeKubernetes = (field: Field, mapping: KubernetesMapping) => {
    const { cluster, namespace, serviceAccount, tenant } = mapping
    if (claimed.take(`${namespace}/${serviceAccount} of cluster ${cluster}`, tenant, field)) kubernetes.push(mapping)
  }
  for (const { field, cluster, workload } of clusters) {
    if (workload !== null) takeKubernetes(field, { tenant: bootstrapTenant, cluster: cluster.name, ...workload })
  }
  for (const field of (list && reader.list(list)) ?? []) {
    const fields = reader.fields('tenant', field)
    if (fields === null) continue
    if (fields.slug === undefined) reader.fault(field, `${field.path} has no slug`)
    const tenant = reader.checked(fields.slug, isTenantSlug, SLUG)
    if (tenant === null) continue
    if (tenants.has(tenant))
      reader.fault(fields.slug ?? field, `${field.path}: the tenant ${quote(tenant)} stands twice`)
    tenants.add(tenant)
    for (const entry of (fields.aws && reader.list(fields.aws)) ?? []) {
      const mapping = readAws(reader, entry)
      if (mapping !== null && claimed.take(nameOfAws(mapping), tenant, entry)) aws.push({ tenant, ...mapping })
    }
    for (const entry of (fields.kubernetes && reader.list(fields.kubernetes)) ?? []) {
      for (const mapping of readKubernetes(reader, entry, clusters)) takeKubernetes(entry, { tenant, ...mapping })
    }
  }
  return { tenants: [...tenants.add(bootstrapTenant)], aws, kubernetes }
}

export const nameOfAws = ({ account, principal }: Omit<AwsMapping, 'tenant'>): string =>
  principal === null ? `AWS account ${account}` : `${principal.kind} ${principal.name} of AWS account ${account}`

function readAws(reader: Reader, field: Field): Omit<AwsMapping, 'tenant'> | null {
  const fields = reader.fields('awsMapping', field)
  if (fields === null) return null
  if (fields.account === undefined) return reader.fault(field, `${field.path} has no account`)
  const account = reader.checked(fields.account, isAwsAccount, '12 digits in quotes')
  if (fields.role !== undefined && fields.user !== undefined)
    return reader.fault(fields.user, `${field.path} takes a role or a user, not both`)
  const named = fields.role ?? fields.user
  if (account === null) return null
  if (named === undefined) return { account, principal: null }
  const what = `a bare ${fields.role ? 'role' : 'user'} name of at most 64 characters: no path (AWS does not prove it), no ARN, no pattern`
  const name = reader.checked(named, isIamName, what)
  return name === null ? null : { account, principal: { kind: fields.role ? 'role' : 'user', name } }
}

function readKubernetes(
  reader: Reader,
  field: Field,
  clusters: readonly ClusterEntry[],
): Omit<KubernetesMapping, 'tenant'>[] {
  const fields = reader.fields('kubernetesMapping', field)
  if (fields === null) return []
  const named = readNamed(reader, field, fields, clusters)
  for (const name of ['namespace', 'serviceAccount'] as const) {
    if (fields[name] === undefined) reader.fault(field, `${field.path} has no ${name}: every mapping names both`)
  }
  const namespace = reader.checked(
    fields.namespace,
    isLabelName,
    'the exact name of a namespace (RFC 1123 label); there are no patterns',
  )
  const serviceAccount = reader.checked(
    fields.serviceAccount,
    isSubdomain,
    'the exact name of a ServiceAccount (RFC 1123 subdomain); there are no patterns',
  )
  if (namespace === null || serviceAccount === null) return []
  return named.map(({ cluster }) => ({ cluster: cluster.name, namespace, serviceAccount }))
}

/** The entries that a mapping is about: one by name, or every `gke:` entry of a project. */
function readNamed(
  reader: Reader,
  field: Field,
  fields: Fields<'kubernetesMapping'>,
  clusters: readonly ClusterEntry[],
): ClusterEntry[] {
  const by = fields.cluster ?? fields.project
  if (by === undefined || (fields.cluster !== undefined && fields.project !== undefined)) {
    reader.fault(by ?? field, `${field.path} names either a cluster or a project`)
    return []
  }
  const text = reader.text(by)
  if (text === null) return []
  const named = clusters.filter(({ cluster, project }) => (fields.cluster ? cluster.name === text : project === text))
  if (named.length === 0) {
    const there = clusters.map(({ cluster }) => cluster.name).join(', ') || 'none'
    reader.fault(
      by,
      fields.cluster
        ? `${by.path} ${quote(text)} is not under clusters; there is ${there}`
        : `${by.path} ${quote(text)} is the project of no gke: entry`,
    )
  }
  return named
}
