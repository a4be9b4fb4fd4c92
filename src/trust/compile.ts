// The trust file, compiled: text in, either every mistake in it or what the Worker uses.

import { hex } from '../protocol/base64url.ts'
import { isTenantSlug, isTrustDomain } from '../protocol/spiffe-id.ts'
import { hours, minutes } from '../protocol/time.ts'
import { type ClusterEntry, type ReadFile, readCluster, readDuration } from './clusters.ts'
import type { AwsMapping, CertificatePolicy, CompiledTrust } from './compiled.ts'
import { type Field, type Mistake, openDocument, quote, type Reader } from './document.ts'
import { isAwsRegion } from './grammar.ts'
import { nameOfAws, readTenants, SLUG } from './tenants.ts'

export type Compilation =
  | { readonly ok: true; readonly trust: CompiledTrust; readonly notes: readonly string[] }
  | { readonly ok: false; readonly mistakes: readonly Mistake[] }

export interface CompileOptions {
  readonly readFile: ReadFile
  /** Whether it is for the deployed Worker, which honours no `caFile` by itself. */
  readonly deployed?: boolean
}

const DEFAULT_REGIONS = ['us-east-1', 'us-west-2', 'sa-east-1']

export async function compileTrust(bytes: Uint8Array, options: CompileOptions): Promise<Compilation> {
  const { reader, root } = openDocument(bytes)
  const draft = root === null ? null : read(reader, root, options)
  if (draft === null || reader.mistakes.length > 0) {
    return { ok: false, mistakes: [...reader.mistakes].sort((a, b) => a.line - b.line || a.column - b.column) }
  }
  const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(JSON.stringify(draft)))
  return { ok: true, trust: { ...draft, hash: hex(new Uint8Array(digest)) }, notes: notesOn(draft.awsMappings) }
}

function read(reader: Reader, root: Field, options: CompileOptions): Omit<CompiledTrust, 'hash'> | null {
  const fields = reader.fields('file', root)
  if (fields === null) return null
  const trustDomain = fields.trustDomain ? readTrustDomain(reader, fields.trustDomain) : 'rootpilot'
  const alsoTrust = readAlsoTrust(reader, fields.alsoTrust, trustDomain)
  const certificate = readCertificatePolicy(reader, fields.certificate)
  const regions = readRegions(reader, fields.aws)
  const bootstrapTenant = fields.bootstrapTenant
    ? reader.checked(fields.bootstrapTenant, isTenantSlug, SLUG)
    : 'default'
  const context = { readFile: options.readFile, trustDomains: [trustDomain ?? '', ...alsoTrust] }
  const entries = ((fields.clusters && reader.list(fields.clusters)) ?? [])
    .map((field) => readCluster(reader, field, context))
    .filter((entry) => entry !== null)
  checkUnique(reader, entries)
  if (options.deployed) checkDeployable(reader, entries)
  const mappings = readTenants(reader, fields.tenants, entries, bootstrapTenant ?? '')
  if (trustDomain === null || bootstrapTenant === null) return null
  return {
    version: 1,
    trustDomain,
    alsoTrust,
    certificate,
    aws: { regions },
    clusters: entries.map(({ cluster }) => cluster),
    bootstrapTenant,
    tenants: mappings.tenants,
    awsMappings: mappings.aws,
    kubernetesMappings: mappings.kubernetes,
  }
}

const readTrustDomain = (reader: Reader, field: Field): string | null =>
  reader.checked(field, isTrustDomain, 'a SPIFFE trust domain: a-z 0-9 . - _ only, no spiffe://')

function readAlsoTrust(reader: Reader, field: Field | undefined, trustDomain: string | null): string[] {
  const domains: string[] = []
  for (const entry of (field && reader.list(field)) ?? []) {
    const domain = readTrustDomain(reader, entry)
    if (domain === null) continue
    if (domain === trustDomain || domains.includes(domain))
      reader.fault(entry, `${entry.path} ${quote(domain)} stands twice`)
    domains.push(domain)
  }
  return domains
}

function readCertificatePolicy(reader: Reader, field: Field | undefined): CertificatePolicy {
  const fields = field && reader.fields('certificate', field)
  const lifetime = fields?.lifetime && readDuration(reader, fields.lifetime, minutes(5), hours(24))
  const onClone =
    fields?.onClone &&
    reader.checked(fields.onClone, (text) => text === 'end' || text === 'refuse', '`end` or `refuse`')
  return {
    lifetime: lifetime ?? minutes(15),
    reattest: fields?.reattest ? readReattest(reader, fields.reattest) : hours(24),
    onClone: onClone === 'refuse' ? 'refuse' : 'end',
  }
}

function readReattest(reader: Reader, field: Field) {
  const { node } = field
  if (node !== null && 'value' in node && node.value === 'off' && reader.text(field) !== null) return null
  return readDuration(reader, field, hours(1), hours(720))
}

function readRegions(reader: Reader, aws: Field | undefined): readonly string[] {
  const field = aws && reader.fields('aws', aws)?.regions
  if (!field) return DEFAULT_REGIONS
  const regions = (reader.list(field) ?? []).map((entry) =>
    reader.checked(
      entry,
      isAwsRegion,
      'a region of the commercial partition, as us-east-1 (GovCloud, China and the like are other partitions)',
    ),
  )
  return [...new Set(regions.filter((region) => region !== null))]
}

/** Issuers are compared without one trailing `/`: the cluster is found by `iss` alone. */
function checkUnique(reader: Reader, entries: readonly ClusterEntry[]): void {
  const names = new Map<string, string>()
  const issuers = new Map<string, string>()
  for (const { field, cluster } of entries) {
    const bare = cluster.issuer.endsWith('/') ? cluster.issuer.slice(0, -1) : cluster.issuer
    const sameName = names.get(cluster.name)
    const sameIssuer = issuers.get(bare)
    if (sameName !== undefined) reader.fault(field, `${field.path} has the name ${quote(cluster.name)} of ${sameName}`)
    if (sameIssuer !== undefined)
      reader.fault(
        field,
        `${field.path} has the issuer ${quote(cluster.issuer)} of ${sameIssuer}: one could forge the other’s tokens`,
      )
    names.set(cluster.name, field.path)
    issuers.set(bare, field.path)
  }
}

function checkDeployable(reader: Reader, entries: readonly ClusterEntry[]): void {
  for (const { field, cluster } of entries) {
    if (cluster.ca !== null && cluster.binding === null && cluster.keys.from !== 'file') {
      reader.fault(
        field,
        `${field.path} has a caFile, but a deployed Worker trusts no private CA: set binding (Workers VPC) or jwksFile`,
      )
    }
  }
}

/** What is right but worth seeing: where a role or user goes elsewhere than the rest of its account. */
function notesOn(mappings: readonly AwsMapping[]): string[] {
  const whole = mappings.filter(({ principal }) => principal === null)
  return whole.flatMap(({ account, tenant }) =>
    mappings
      .filter((m) => m.account === account && m.principal !== null && m.tenant !== tenant)
      .map(
        (m) =>
          `${nameOfAws(m)} goes to tenant ${m.tenant}, the rest of the account to ${tenant}: the more exact mapping wins`,
      ),
  )
}
