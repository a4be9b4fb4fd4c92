// Declares the trust file: its top level and its tenants. The fields of a mode are declared in modes/.

import { CLUSTERS } from './clusters.ts'
import type { ObjectValue } from './declaration.ts'
import { SLUG, TRUST_DOMAIN } from './grammar.ts'
import { AWS, AWS_MAPPINGS } from './modes/aws-sts.ts'
import { KUBERNETES_MAPPINGS } from './modes/kubernetes.ts'
import { LAST_SHARD } from './shards.ts'

export const TENANTS = {
  kind: 'list',
  description: 'Who may enroll into which tenant.',
  default: [],
  of: {
    kind: 'object',
    fields: {
      slug: {
        kind: 'text',
        required: true,
        description: 'Name of the tenant, as it stands in certificates.',
        grammar: SLUG,
      },
      shard: {
        kind: 'number',
        default: 0,
        description: 'The database of the tenant: 0 is the binding DB of wrangler.toml, 1 is DB_1, and so on.',
        least: 0,
        most: LAST_SHARD,
      },
      aws: AWS_MAPPINGS,
      kubernetes: KUBERNETES_MAPPINGS,
    },
  },
} as const

export const TRUST_FILE = {
  kind: 'object',
  fields: {
    trustDomain: {
      kind: 'text',
      default: 'rootpilot',
      description: 'Trust domain of every certificate.',
      grammar: TRUST_DOMAIN,
    },
    alsoTrust: {
      kind: 'list',
      default: [],
      description: 'Trust domains whose certificates may be renewed into trustDomain.',
      of: { kind: 'text', grammar: TRUST_DOMAIN },
    },
    certificate: {
      kind: 'object',
      default: {},
      description: 'How long certificates and enrollments last.',
      fields: {
        lifetime: {
          kind: 'duration',
          default: '15m',
          description: 'Life of a certificate.',
          least: '5m',
          most: '24h',
        },
        reattest: {
          kind: 'duration',
          default: '24h',
          description: 'How long an enrollment by platform evidence may renew.',
          least: '1h',
          most: '720h',
          or: 'off',
        },
        onClone: {
          kind: 'choice',
          default: 'end',
          description: 'What a use outside the lineage ends: the enrollment, or that use alone.',
          of: ['end', 'refuse'],
        },
      },
    },
    aws: AWS,
    clusters: CLUSTERS,
    bootstrapTenant: {
      kind: 'text',
      default: 'default',
      description: 'Tenant of entries that name their own ServiceAccount, and of runner tokens.',
      grammar: SLUG,
    },
    tenants: TENANTS,
  },
} as const satisfies ObjectValue
