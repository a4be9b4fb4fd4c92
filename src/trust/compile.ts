// The trust file, compiled: text in, either every mistake in it or what the Worker uses.

import { quote } from '../protocol/labels.ts'
import { isTenantSlug, isTrustDomain } from '../protocol/spiffe-id.ts'
import { hours, minutes } from '../protocol/time.ts'
import { readClusters, readDuration } from './clusters.ts'
import { type CertificatePolicy, type CompiledTrust, hashOf } from './compiled.ts'
import { type Field, type Mistake, openDocument, type Reader } from './document.ts'
import { isAwsRegion, REGION } from './grammar.ts'
import type { ReadFile } from './key-source.ts'
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
  return { ok: true, trust: { ...draft, hash: await hashOf(draft) }, notes: notesOn(draft) }
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
  const entries = readClusters(reader, fields.clusters, {
    readFile: options.readFile,
    deployed: options.deployed ?? false,
    trustDomains: [trustDomain ?? '', ...alsoTrust],
  })
  const mappings = readTenants(reader, fields.tenants, entries, bootstrapTenant)
  if (trustDomain === null || bootstrapTenant === null) return null
  return {
    version: 1,
    trustDomain,
    alsoTrust,
    certificate,
    aws: { regions },
    clusters: entries.map(({ cluster }) => cluster).filter((cluster) => cluster !== null),
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
  return readDuration(reader, field, hours(1), hours(720), '`off`, or ')
}

function readRegions(reader: Reader, aws: Field | undefined): readonly string[] {
  const field = aws && reader.fields('aws', aws)?.regions
  if (!field) return DEFAULT_REGIONS
  const regions = (reader.list(field) ?? []).map((entry) => reader.checked(entry, isAwsRegion, REGION))
  return [...new Set(regions.filter((region) => region !== null))]
}

/** What is right but worth seeing. */
function notesOn({ awsMappings, kubernetesMappings, clusters }: Omit<CompiledTrust, 'hash'>): string[] {
  const narrower = awsMappings.flatMap((whole) =>
    whole.principal !== null
      ? []
      : awsMappings
          .filter((m) => m.account === whole.account && m.principal !== null && m.tenant !== whole.tenant)
          .map((m) => `${nameOfAws(m)} goes to tenant ${m.tenant}, the rest of the account to ${whole.tenant}`),
  )
  const unnamed = clusters
    .filter(({ name }) => !kubernetesMappings.some(({ cluster }) => cluster === name))
    .map(({ name }) => `cluster ${name}: no mapping names it, so nobody from it can enroll`)
  const local = clusters
    .filter(({ ca, binding, keys }) => ca !== null && binding === null && keys.from !== 'file')
    .map(
      ({ name }) => `cluster ${name}: only \`muster dev\` honours its caFile; deployed, it needs binding or jwksFile`,
    )
  return [...narrower, ...unnamed, ...local]
}
