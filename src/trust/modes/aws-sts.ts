// `aws-sts` in the trust file: `aws.regions`, and the accounts, roles and users under each tenant's `aws`.

import { refuse } from '../../protocol/refusals.ts'
import { ok } from '../../protocol/result.ts'
import type { ListValue, ObjectValue, ValueOf } from '../declaration.ts'
import { AWS_ACCOUNT, AWS_REGION, IAM_ROLE, IAM_USER } from '../grammar.ts'
import type { MappedIdentities, TenantMappings } from '../mapped-identities.ts'
import type { TrustMode } from './mode.ts'

export interface AwsClaims {
  readonly mode: 'aws-sts'
  readonly account: string
  readonly arn: string
  readonly principal: AwsPrincipal
}

interface AwsPrincipal {
  readonly kind: 'role' | 'user'
  readonly name: string
}

export interface AwsMapping {
  readonly tenant: string
  readonly account: string
  /** Null: the whole account. */
  readonly principal: AwsPrincipal | null
}

export interface AwsTrust {
  readonly aws: { readonly regions: readonly string[] }
  readonly awsMappings: readonly AwsMapping[]
}

export const awsSts: TrustMode<AwsClaims, AwsTrust> = {
  proven: ({ account, arn }) => ({ source: account, identity: arn }),
  /** A role or user of its own wins over its whole account. */
  place({ awsMappings }, { account, principal }) {
    const ofAccount = awsMappings.filter((mapping) => mapping.account === account)
    const mapping =
      ofAccount.find((own) => own.principal?.kind === principal.kind && own.principal.name === principal.name) ??
      ofAccount.find((own) => own.principal === null)
    return mapping === undefined ? refuse('tenant_none') : ok({ tenant: mapping.tenant, runnerId: null })
  },
  instance: null,
}

export const AWS = {
  kind: 'object',
  description: 'AWS STS.',
  default: {},
  fields: {
    regions: {
      kind: 'list',
      description: 'Regions of the commercial partition whose STS is asked.',
      default: ['us-east-1', 'us-west-2', 'sa-east-1'],
      of: { kind: 'text', grammar: AWS_REGION },
    },
  },
} as const satisfies ObjectValue

export const AWS_MAPPINGS = {
  kind: 'list',
  description: 'AWS accounts, roles and users; an account alone means all of it.',
  default: [],
  of: {
    kind: 'object',
    fields: {
      account: { kind: 'text', required: true, description: '12 digits, in quotes.', grammar: AWS_ACCOUNT },
      role: { kind: 'text', description: 'Role name without its path.', grammar: IAM_ROLE },
      user: { kind: 'text', description: 'User name without its path.', grammar: IAM_USER },
    },
    exclusive: ['role', 'user'],
  },
} as const satisfies ListValue

type Mapping = ValueOf<(typeof AWS_MAPPINGS)['of']>

export function compileAwsMappings(
  mapped: MappedIdentities,
  tenants: readonly TenantMappings<ValueOf<typeof AWS_MAPPINGS>>[],
): AwsMapping[] {
  return tenants.flatMap(({ tenant, mappings }) =>
    (mappings.value ?? []).flatMap((entry) => {
      const mapping = entry.value && mappingOf(entry.value)
      const isNew = mapping && tenant !== null && mapped.add(describe(mapping), tenant, entry)
      return isNew ? [{ tenant, ...mapping }] : []
    }),
  )
}

function mappingOf({ account, role, user }: Mapping): Omit<AwsMapping, 'tenant'> | null {
  if (account.value === null) return null
  const named = role ?? user
  if (named === undefined) return { account: account.value, principal: null }
  // A role or user that is there and wrong must not become the whole account.
  if (named.value === null || (role !== undefined && user !== undefined)) return null
  return { account: account.value, principal: { kind: role === undefined ? 'user' : 'role', name: named.value } }
}

const describe = ({ account, principal }: Omit<AwsMapping, 'tenant'>): string =>
  principal === null ? `AWS account ${account}` : `${principal.kind} ${principal.name} of AWS account ${account}`

/** The roles and users that go to another tenant than the rest of their account. */
export const awsNotes = ({ awsMappings }: AwsTrust): string[] =>
  awsMappings
    .filter(({ principal }) => principal === null)
    .flatMap((whole) =>
      awsMappings
        .filter((own) => own.account === whole.account && own.principal !== null && own.tenant !== whole.tenant)
        .map((own) => `${describe(own)} goes to tenant ${own.tenant}, the rest of the account to ${whole.tenant}`),
    )
