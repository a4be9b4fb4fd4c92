// The JSON Schema (2020-12) of the trust file, for editors; the compiler remains the judge.

import { FIELDS, type FieldOf, type Place } from './fields.ts'

interface Schema {
  readonly [keyword: string]: unknown
}

/** An object of one place of the file: every field of `FIELDS` must be described, and no other can be. */
const object = <P extends Place>(place: P, properties: Record<FieldOf<P>, Schema>, rest: Schema = {}): Schema => ({
  type: 'object',
  additionalProperties: false,
  properties: Object.fromEntries(FIELDS[place].map((name) => [name, properties[name as FieldOf<P>]])),
  ...rest,
})

const list = (items: Schema): Schema => ({ type: 'array', items })
const text = (description: string, rest: Schema = {}): Schema => ({
  type: 'string',
  minLength: 1,
  description,
  ...rest,
})
const emptyable = (description: string): Schema => ({ type: ['string', 'null'], description })
const duration = (description: string): Schema =>
  text(`${description} Written as 600s, 10m or 1h30m.`, { pattern: '^([0-9]{1,8}h)?([0-9]{1,8}m)?([0-9]{1,8}s)?$' })

const slug = (description: string) => text(description, { pattern: '^[a-z0-9-]{1,63}$' })
const trustDomain = (description: string) => text(description, { pattern: '^[a-z0-9._-]{1,255}$' })
const namespace = text('Exact name of the namespace.', { maxLength: 63 })
const serviceAccount = text('Exact name of the ServiceAccount.', { maxLength: 253 })
const region = text('A region of the commercial partition.', { pattern: '^[a-z]{2}-[a-z]+-[1-9]$' })

const cluster = object(
  'cluster',
  {
    name: text('First segment of the runner IDs of its nodes.', { pattern: '^[a-z0-9-]{1,40}$' }),
    issuer: text('`iss` of its tokens, byte for byte.', { pattern: '^https://' }),
    eks: object('eks', { region, id: text('The id at the end of the issuer.') }, { required: FIELDS.eks }),
    gke: object(
      'gke',
      {
        project: text('Google Cloud project.'),
        location: text('Region or zone.'),
        cluster: text('Name of the cluster.'),
      },
      { required: FIELDS.gke },
    ),
    audience: {
      description: 'One accepted audience, or a list.',
      anyOf: [text('An audience.'), { ...list(text('An audience.')), minItems: 1 }],
    },
    namespace,
    serviceAccount,
    maxTokenLifetime: duration('Upper bound on exp − iat, 600s to 24h.'),
    jwksURI: emptyable('Where the keys are, in place of discovery.'),
    jwksFile: emptyable('File of a JWK Set, relative to this file and bundled.'),
    caFile: emptyable('File of a PEM CA certificate of a private issuer.'),
    binding: emptyable('Workers VPC service binding that reaches a private issuer.'),
    node: { const: 'optional', description: 'Accept tokens without a node (Kubernetes < 1.32): no runner ID then.' },
    deny: object('deny', { nodes: list(text('Name of a node that is cut off.')) }),
  },
  {
    required: ['name'],
    oneOf: [{ required: ['issuer'] }, { required: ['eks'] }, { required: ['gke'] }],
    dependentRequired: { namespace: ['serviceAccount'], serviceAccount: ['namespace'] },
  },
)

const tenant = object(
  'tenant',
  {
    slug: slug('Name of the tenant, as it stands in certificates.'),
    aws: list(
      object(
        'awsMapping',
        {
          account: text('12 digits, in quotes.', { pattern: '^[0-9]{12}$' }),
          role: text('Role name without its path.', { maxLength: 64 }),
          user: text('User name without its path.', { maxLength: 64 }),
        },
        { required: ['account'], not: { required: ['role', 'user'] } },
      ),
    ),
    kubernetes: list(
      object(
        'kubernetesMapping',
        {
          cluster: text('Name of an entry of `clusters`.'),
          project: text('Every gke: entry of this project.'),
          namespace,
          serviceAccount,
        },
        { required: ['namespace', 'serviceAccount'], oneOf: [{ required: ['cluster'] }, { required: ['project'] }] },
      ),
    ),
  },
  { required: ['slug'] },
)

export const TRUST_SCHEMA: Schema = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  title: 'Muster trust file',
  ...object('file', {
    trustDomain: trustDomain('Trust domain of every certificate. Default: rootpilot.'),
    alsoTrust: list(trustDomain('A trust domain whose certificates may be renewed into trustDomain.')),
    certificate: object('certificate', {
      lifetime: duration('Life of a certificate, 5m to 24h. Default: 15m.'),
      reattest: {
        description: 'How long an enrollment by platform evidence may renew. Default: 24h.',
        anyOf: [{ const: 'off' }, duration('1h to 720h.')],
      },
      onClone: { enum: ['end', 'refuse'], description: 'What a use outside the lineage does. Default: end.' },
    }),
    aws: object('aws', { regions: list(region) }),
    clusters: list(cluster),
    bootstrapTenant: slug(
      'Tenant of entries that name their own ServiceAccount, and of runner tokens. Default: default.',
    ),
    tenants: list(tenant),
  }),
}
