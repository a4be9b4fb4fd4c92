// Compiles the trust file: from its bytes to what the Worker uses, or to every mistake in it.

import { quote } from '../protocol/characters.ts'
import { err, ok, type Result } from '../protocol/result.ts'
import { compileClusters } from './clusters.ts'
import { type CompiledTrust, hashOf } from './compiled.ts'
import type { FieldsOf, Given, ValueOf } from './declaration.ts'
import { type Field, type Mistake, openDocument } from './document.ts'
import { type TENANTS, TRUST_FILE } from './file.ts'
import { MappedIdentities } from './mapped-identities.ts'
import { awsNotes, compileAwsMappings } from './modes/aws-sts.ts'
import { compileKubernetesMappings, kubernetesNotes } from './modes/kubernetes.ts'
import { type Outside, Reader, valuesOf } from './reader.ts'
import { bindingOf, type Placements } from './shards.ts'

export interface Compiled {
  readonly trust: CompiledTrust
  /** Tenants that have an entry; the bootstrap tenant needs none. */
  readonly listed: readonly string[]
  /** What is valid but worth a look, one sentence each. */
  readonly notes: readonly string[]
}

/** The error: every mistake, in the order of the file. */
export type Compilation = Result<Compiled, readonly Mistake[]>

export interface CompileOptions extends Outside {
  /** Whether it is for a deployed Worker, which cannot use a `caFile` by itself. */
  readonly deployed: boolean
  /** The shards with a binding in wrangler.toml, where that is known. */
  readonly boundShards?: readonly number[] | undefined
}

export async function compileTrust(bytes: Uint8Array, options: CompileOptions): Promise<Compilation> {
  const { document, root } = openDocument(bytes)
  const read = root === null ? null : compile(new Reader(document, options), root, options)
  if (read === null || document.mistakes.length > 0)
    return err([...document.mistakes].sort((a, b) => a.line - b.line || a.column - b.column))
  const { content, listed } = read
  const trust = { ...content, hash: await hashOf(content) }
  return ok({ trust, listed, notes: [...document.notes, ...awsNotes(trust), ...kubernetesNotes(trust)] })
}

type FileFields = FieldsOf<typeof TRUST_FILE.fields>

/** Null where a mistake leaves nothing to compile. With any mistake the result is not used. */
function compile(
  reader: Reader,
  root: Field,
  { deployed, boundShards }: CompileOptions,
): { content: Omit<CompiledTrust, 'hash'>; listed: string[] } | null {
  const file = reader.read(TRUST_FILE, root).value
  if (file === null) return null
  const trustDomain = file.trustDomain.value
  const bootstrapTenant = file.bootstrapTenant.value
  const alsoTrust = compileAlsoTrust(reader, file)
  const clusters = compileClusters(reader, file.clusters, { deployed, trustDomains: [trustDomain ?? '', ...alsoTrust] })
  const tenants = compileTenants(reader, file.tenants)
  const mappingsOf = <M extends 'aws' | 'kubernetes'>(mode: M) =>
    tenants.map(({ tenant, fields }) => ({ tenant, mappings: fields[mode] }))
  const mapped = new MappedIdentities(reader)
  const awsMappings = compileAwsMappings(mapped, mappingsOf('aws'))
  const kubernetesMappings = compileKubernetesMappings(
    reader,
    mapped,
    clusters,
    bootstrapTenant,
    mappingsOf('kubernetes'),
  )
  const certificate = compileCertificate(file)
  if (trustDomain === null || bootstrapTenant === null || certificate === null) return null
  const listed = tenants.map(({ tenant }) => tenant).filter((tenant) => tenant !== null)
  const content = {
    version: 1 as const,
    trustDomain,
    alsoTrust,
    certificate,
    aws: { regions: [...new Set(valuesOf(file.aws.value?.regions))] },
    clusters: clusters.map(({ cluster }) => cluster).filter((cluster) => cluster !== null),
    bootstrapTenant,
    tenants: [...new Set([...listed, bootstrapTenant])],
    shards: compileShards(reader, tenants, boundShards),
    awsMappings,
    kubernetesMappings,
  }
  return { content, listed }
}

function compileAlsoTrust(reader: Reader, { trustDomain, alsoTrust }: FileFields): string[] {
  const domains: string[] = []
  for (const entry of alsoTrust.value ?? []) {
    const { path, value: domain } = entry
    if (domain === null) continue
    if (domain === trustDomain.value || domains.includes(domain))
      reader.fault(entry, `${path} ${quote(domain)} stands twice`)
    domains.push(domain)
  }
  return domains
}

function compileCertificate({ certificate }: FileFields): CompiledTrust['certificate'] | null {
  const { lifetime, reattest, onClone } = certificate.value ?? {}
  return lifetime?.value && reattest?.value && onClone?.value
    ? {
        lifetime: lifetime.value,
        reattest: reattest.value === 'off' ? null : reattest.value,
        onClone: onClone.value,
      }
    : null
}

interface Tenant {
  /** Null: its slug is a mistake. */
  readonly tenant: string | null
  readonly fields: ValueOf<(typeof TENANTS)['of']>
}

function compileTenants(reader: Reader, list: Given<ValueOf<typeof TENANTS>>): Tenant[] {
  const taken = new Map<string, string>()
  return (list.value ?? []).flatMap(({ path, value: fields }) => {
    if (fields === null) return []
    const tenant = fields.slug.value
    const same = tenant === null ? undefined : taken.get(tenant)
    if (same !== undefined) reader.fault(fields.slug, `${path} has the slug ${quote(tenant ?? '')} of ${same}`)
    if (tenant !== null) taken.set(tenant, path)
    return [{ tenant, fields }]
  })
}

function compileShards(reader: Reader, tenants: readonly Tenant[], bound: readonly number[] | undefined): Placements {
  return tenants.flatMap(({ tenant, fields: { shard } }) => {
    if (tenant === null || shard.value === null || shard.value === 0) return []
    const binding = bindingOf(shard.value)
    if (bound !== undefined && !bound.includes(shard.value))
      reader.fault(
        shard,
        `${shard.path} ${shard.value} is the database ${binding}, which wrangler.toml does not bind: add it to [[d1_databases]], migrate it and deploy first`,
      )
    return [{ tenant, shard: shard.value }]
  })
}
