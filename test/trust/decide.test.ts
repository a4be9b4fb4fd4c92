// Tests which tenant the trust file gives to a proven identity.
import { expect, test } from 'vitest'
import { seconds } from '../../src/protocol/time.ts'
import type { CompiledTrust } from '../../src/trust/compiled.ts'
import { decide } from '../../src/trust/decide.ts'
import type { AwsClaims, AwsMapping } from '../../src/trust/modes/aws-sts.ts'
import type { Cluster, KubernetesClaims } from '../../src/trust/modes/kubernetes.ts'
import { workloadRunnerId } from '../../src/trust/modes/kubernetes.ts'
import type { Claims } from '../../src/trust/modes/registry.ts'
import { clusterWith, trustWith } from '../fakes/trust.ts'

const aws = (changes: Partial<AwsClaims> = {}): AwsClaims => ({
  mode: 'aws-sts',
  account: '111122223333',
  arn: 'arn:aws:sts::111122223333:assumed-role/runner/i-1',
  principal: { kind: 'role', name: 'runner' },
  ...changes,
})
const workload = (changes: Partial<KubernetesClaims> = {}): KubernetesClaims => ({
  mode: 'kubernetes',
  cluster: 'prod',
  namespace: 'runners',
  serviceAccount: 'runner',
  pod: 'runner-x',
  node: 'ip-10-0-1-5.ec2.internal',
  ...changes,
})
const awsMapping = (tenant: string, principal: AwsMapping['principal']): AwsMapping => ({
  tenant,
  account: '111122223333',
  principal,
})

/** The tenant, or the reason of the refusal. */
function tenantOf(changes: Partial<CompiledTrust>, claims: Claims): string {
  const decision = decide(trustWith(changes), claims)
  return decision.ok ? decision.value.tenant : decision.error.reason
}

const CLUSTER: Partial<CompiledTrust> = {
  clusters: [clusterWith(), clusterWith({ name: 'other', issuer: 'https://other.example.com' })],
  kubernetesMappings: [
    { tenant: 'acme', cluster: 'prod', namespace: 'runners', serviceAccount: 'runner' },
    { tenant: 'globex', cluster: 'prod', namespace: 'runners', serviceAccount: 'builder' },
    { tenant: 'globex', cluster: 'other', namespace: 'runners', serviceAccount: 'runner' },
  ],
}

test('a role or user of its own wins over the whole account, wherever it stands', () => {
  const mappings = [awsMapping('globex', null), awsMapping('acme', { kind: 'role', name: 'runner' })]
  for (const awsMappings of [mappings, mappings.toReversed()]) {
    expect(tenantOf({ awsMappings }, aws())).toBe('acme')
    expect(tenantOf({ awsMappings }, aws({ principal: { kind: 'role', name: 'runner2' } }))).toBe('globex')
    expect(tenantOf({ awsMappings }, aws({ principal: { kind: 'user', name: 'runner' } }))).toBe('globex')
  }
})

test('a role is no user of the same name, no role of another spelling, and none of another account', () => {
  const awsMappings = [awsMapping('acme', { kind: 'role', name: 'runner' })]
  expect(tenantOf({ awsMappings }, aws({ principal: { kind: 'user', name: 'runner' } }))).toBe('tenant_none')
  expect(tenantOf({ awsMappings }, aws({ principal: { kind: 'role', name: 'Runner' } }))).toBe('tenant_none')
  expect(tenantOf({ awsMappings }, aws({ principal: { kind: 'role', name: 'runner-2' } }))).toBe('tenant_none')
  expect(tenantOf({ awsMappings }, aws({ account: '444455556666' }))).toBe('tenant_none')
  expect(tenantOf({}, aws())).toBe('tenant_none')
})

test('two tenants share a cluster by ServiceAccount, and one name in two clusters is two', () => {
  expect(tenantOf(CLUSTER, workload())).toBe('acme')
  expect(tenantOf(CLUSTER, workload({ serviceAccount: 'builder' }))).toBe('globex')
  expect(tenantOf(CLUSTER, workload({ cluster: 'other' }))).toBe('globex')
  expect(tenantOf(CLUSTER, workload({ namespace: 'default' }))).toBe('tenant_none')
  expect(tenantOf(CLUSTER, workload({ serviceAccount: 'runner-2' }))).toBe('tenant_none')
})

test('a cluster that is gone proves nothing, even where a mapping still names it', () => {
  expect(tenantOf({ ...CLUSTER, clusters: [] }, workload())).toBe('issuer_unknown')
})

test('a denied node is out in its own cluster alone, and its pods on other nodes are not', () => {
  const denied = {
    ...CLUSTER,
    clusters: [clusterWith({ denyNodes: ['ip-10-0-1-5.ec2.internal'] }), clusterWith({ name: 'other' })],
  }
  expect(tenantOf(denied, workload())).toBe('node_denied')
  expect(tenantOf(denied, workload({ node: 'ip-10-0-1-6.ec2.internal' }))).toBe('acme')
  expect(tenantOf(denied, workload({ cluster: 'other' }))).toBe('globex')
})

test('a ServiceAccount that the entry does not name gets no runner ID, whatever tenant it is mapped to', () => {
  const runnerIdOf = (own: Cluster['workload'], claims: KubernetesClaims) => {
    const clusters = [clusterWith({ workload: own }), clusterWith({ name: 'other' })]
    const decision = decide(trustWith({ ...CLUSTER, clusters }), claims)
    return decision.ok ? decision.value.runnerId : decision.error.reason
  }
  const own = { namespace: 'runners', serviceAccount: 'runner' }
  expect(runnerIdOf(own, workload())).toBe('prod/ip-10-0-1-5_ec2_internal')
  expect(runnerIdOf(own, workload({ serviceAccount: 'builder' }))).toBeNull()
  expect(runnerIdOf({ ...own, namespace: 'other' }, workload())).toBeNull()
  expect(runnerIdOf(null, workload())).toBeNull()
  // The entry's own ServiceAccount of another cluster is not this one's.
  expect(runnerIdOf({ namespace: 'x', serviceAccount: 'x' }, workload())).toBeNull()
})

test('the runner ID is the node of the cluster; without a node there is none', () => {
  const decision = (claims: Claims) => decide(trustWith(CLUSTER), claims)
  expect(decision(workload())).toMatchObject({ value: { runnerId: 'prod/ip-10-0-1-5_ec2_internal', source: 'prod' } })
  expect(decision(workload({ node: null }))).toMatchObject({ value: { runnerId: null, tenant: 'acme' } })
  expect(workloadRunnerId('a', 'n-1.b')).not.toBe(workloadRunnerId('a', 'n.1-b'))
})

test('a tenant that was removed gets no identity, by any mode', () => {
  const removed = {
    ...CLUSTER,
    tenants: ['default', 'globex'],
    awsMappings: [awsMapping('acme', null)],
  }
  const token = { tokenId: 't', tenant: 'acme' }
  for (const claims of [
    workload(),
    aws(),
    { mode: 'bootstrap-token', ...token },
    { mode: 'runner-token', ...token, runnerId: 'build-7' },
    { mode: 'provisioned', tenant: 'acme' },
  ] satisfies Claims[]) {
    expect([claims.mode, tenantOf(removed, claims)]).toEqual([claims.mode, 'tenant_none'])
  }
})

test('a token for the bootstrap tenant is good without an entry of it, whatever its kind', () => {
  const trust = { bootstrapTenant: 'ops', tenants: ['acme', 'ops'] }
  const of = (tenant: string): Claims[] => [
    { mode: 'bootstrap-token', tokenId: 't', tenant },
    { mode: 'runner-token', tokenId: 't', tenant, runnerId: 'build-7' },
  ]
  expect(of('ops').map((claims) => tenantOf(trust, claims))).toEqual(['ops', 'ops'])
  expect(of('default').map((claims) => tenantOf(trust, claims))).toEqual(['tenant_none', 'tenant_none'])
})

test('a token enrolls into the tenant that it was minted for', () => {
  expect(tenantOf({}, { mode: 'bootstrap-token', tokenId: 't', tenant: 'globex' })).toBe('globex')
  expect(
    decide(trustWith(), { mode: 'runner-token', tokenId: 't', tenant: 'acme', runnerId: 'build-7' }),
  ).toMatchObject({
    value: { tenant: 'acme', runnerId: 'build-7', source: '' },
  })
})

test('the proven mode of a workload is its cluster’s, for the certificate to name', () => {
  const trust = trustWith({ ...CLUSTER, clusters: [clusterWith({ mode: 'gke-oidc', maxTokenLifetime: seconds(600) })] })
  expect(decide(trust, workload({ mode: 'gke-oidc' }))).toMatchObject({ value: { mode: 'gke-oidc', source: 'prod' } })
})
