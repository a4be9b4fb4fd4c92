// The `tenants` list of the trust file: who maps to which tenant, exact values only, nobody to two.

import { quote } from '../protocol/labels.ts'
import { isTenantSlug } from '../protocol/spiffe-id.ts'
import { type ClusterEntry, readServiceAccount, type Workload } from './clusters.ts'
import type { AwsMapping, KubernetesMapping } from './compiled.ts'
import type { Field, Fields, Reader } from './document.ts'
import { isAwsAccount, isIamName } from './grammar.ts'

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

/** `bootstrapTenant` null: it is a mistake, and nothing can clash with it. */
export function readTenants(
  reader: Reader,
  list: Field | undefined,
  clusters: readonly ClusterEntry[],
  bootstrapTenant: string | null,
): Mappings {
  const claimed = new Claimed(reader)
  const tenants = new Map<string, string>()
  const aws: AwsMapping[] = []
  const kubernetes: KubernetesMapping[] = []
  const takeKubernetes = (field: Field, tenant: string | null, mapping: Omit<KubernetesMapping, 'tenant'>) => {
    const identity = `${mapping.namespace}/${mapping.serviceAccount} of cluster ${mapping.cluster}`
    if (tenant !== null && claimed.take(identity, tenant, field)) kubernetes.push({ tenant, ...mapping })
  }
  for (const { field, name, workload } of clusters) {
    if (name !== null && workload !== null) takeKubernetes(field, bootstrapTenant, { cluster: name, ...workload })
  }
  for (const field of (list && reader.list(list)) ?? []) {
    const fields = reader.fields('tenant', field)
    if (fields === null) continue
    const tenant = reader.required(field, 'slug', fields.slug, isTenantSlug, SLUG)
    const same = tenant === null ? undefined : tenants.get(tenant)
    if (same !== undefined)
      reader.fault(fields.slug ?? field, `${field.path} has the slug ${quote(tenant ?? '')} of ${same}`)
    if (tenant !== null) tenants.set(tenant, field.path)
    for (const entry of (fields.aws && reader.list(fields.aws)) ?? []) {
      const mapping = readAws(reader, entry)
      if (mapping !== null && tenant !== null && claimed.take(nameOfAws(mapping), tenant, entry))
        aws.push({ tenant, ...mapping })
    }
    for (const entry of (fields.kubernetes && reader.list(fields.kubernetes)) ?? []) {
      for (const mapping of readKubernetes(reader, entry, clusters)) takeKubernetes(entry, tenant, mapping)
    }
  }
  const slugs = new Set(tenants.keys())
  if (bootstrapTenant !== null) slugs.add(bootstrapTenant)
  return { tenants: [...slugs], aws, kubernetes }
}

export const nameOfAws = ({ account, principal }: Omit<AwsMapping, 'tenant'>): string =>
  principal === null ? `AWS account ${account}` : `${principal.kind} ${principal.name} of AWS account ${account}`

function readAws(reader: Reader, field: Field): Omit<AwsMapping, 'tenant'> | null {
  const fields = reader.fields('awsMapping', field)
  if (fields === null) return null
  const account = reader.required(field, 'account', fields.account, isAwsAccount, '12 digits in quotes')
  const role = readIamName(reader, 'role', fields.role)
  const user = readIamName(reader, 'user', fields.user)
  if (fields.role !== undefined && fields.user !== undefined)
    return reader.fault(fields.user, `${field.path} takes a role or a user, not both`)
  if (account === null) return null
  if (role !== null) return { account, principal: { kind: 'role', name: role } }
  if (user !== null) return { account, principal: { kind: 'user', name: user } }
  // A role or user that is there and wrong must not become the whole account.
  return fields.role === undefined && fields.user === undefined ? { account, principal: null } : null
}

function readIamName(reader: Reader, kind: 'role' | 'user', field: Field | undefined): string | null {
  const what = `a bare ${kind} name of at most 64 characters: no path (AWS does not prove it), no ARN, no pattern`
  return reader.checked(field, isIamName, what)
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
  const workload: Workload | null = readServiceAccount(reader, fields.namespace, fields.serviceAccount)
  return workload === null ? [] : named.map((cluster) => ({ cluster, ...workload }))
}

/** The names of the entries that a mapping is about: one, or every `gke:` entry of a project. */
function readNamed(
  reader: Reader,
  field: Field,
  fields: Fields<'kubernetesMapping'>,
  clusters: readonly ClusterEntry[],
): string[] {
  const { cluster, project } = fields
  const by = cluster ?? project
  if (by === undefined || (cluster !== undefined && project !== undefined)) {
    reader.fault(by ?? field, `${field.path} names either a cluster or a project`)
    return []
  }
  const text = reader.text(by)
  if (text === null) return []
  const named = clusters.filter((entry) => (cluster === undefined ? entry.project : entry.name) === text)
  if (named.length === 0) {
    const there = list(clusters.map((entry) => (cluster === undefined ? entry.project : entry.name)))
    reader.fault(
      by,
      cluster === undefined
        ? `${by.path} ${quote(text)} is the project of no gke: entry; there is ${there}`
        : `${by.path} ${quote(text)} is not under clusters; there is ${there}`,
    )
  }
  return named.map(({ name }) => name).filter((name) => name !== null)
}

const list = (names: readonly (string | null)[]): string =>
  [...new Set(names)]
    .filter((name) => name !== null)
    .map(quote)
    .join(', ') || 'none'
