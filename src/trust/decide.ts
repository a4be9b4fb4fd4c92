// Who a proven identity is to this trust file: the one place that names a tenant. Pure.

import type { ProvenMode } from '../protocol/modes.ts'
import { type Outcome, refuse } from '../protocol/refusals.ts'
import { ok } from '../protocol/result.ts'
import type { AwsClaims, Claims, KubernetesClaims } from './claims.ts'
import type { CompiledTrust } from './compiled.ts'

/** What the certificate authority may believe. */
export interface Decision {
  readonly tenant: string
  /** Null where the mode attests no runner ID. */
  readonly runnerId: string | null
  readonly mode: ProvenMode
  /** AWS account, cluster name or empty. */
  readonly source: string
  /** What the operator knows the caller by: ARN, `sub`, token id. */
  readonly identity: string
}

export function decide(trust: CompiledTrust, claims: Claims): Outcome<Decision> {
  switch (claims.mode) {
    case 'bootstrap-token':
      return standing(trust, {
        tenant: claims.tenant,
        runnerId: null,
        mode: claims.mode,
        source: '',
        identity: claims.tokenId,
      })
    case 'runner-token':
      return standing(trust, {
        tenant: claims.tenant,
        runnerId: claims.runnerId,
        mode: claims.mode,
        source: '',
        identity: claims.tokenId,
      })
    case 'provisioned':
      return standing(trust, { tenant: claims.tenant, runnerId: null, mode: claims.mode, source: '', identity: '' })
    case 'aws-sts':
      return decideAws(trust, claims)
    case 'gke-oidc':
    case 'eks-oidc':
    case 'kubernetes':
      return decideKubernetes(trust, claims)
  }
}

function standing(trust: CompiledTrust, decision: Decision): Outcome<Decision> {
  return trust.tenants.includes(decision.tenant) ? ok(decision) : refuse('tenant_none')
}

/** A role or user of its own wins over its whole account. */
function decideAws(trust: CompiledTrust, claims: AwsClaims): Outcome<Decision> {
  const ofAccount = trust.awsMappings.filter((mapping) => mapping.account === claims.account)
  const mapping =
    ofAccount.find(
      ({ principal }) => principal?.kind === claims.principal.kind && principal.name === claims.principal.name,
    ) ?? ofAccount.find(({ principal }) => principal === null)
  if (mapping === undefined) return refuse('tenant_none')
  return standing(trust, {
    tenant: mapping.tenant,
    runnerId: null,
    mode: claims.mode,
    source: claims.account,
    identity: claims.arn,
  })
}

function decideKubernetes(trust: CompiledTrust, claims: KubernetesClaims): Outcome<Decision> {
  const cluster = trust.clusters.find(({ name }) => name === claims.cluster)
  if (cluster === undefined) return refuse('issuer_unknown')
  const mapping = trust.kubernetesMappings.find(
    (m) =>
      m.cluster === claims.cluster && m.namespace === claims.namespace && m.serviceAccount === claims.serviceAccount,
  )
  if (mapping === undefined) return refuse('tenant_none')
  if (claims.node !== null && cluster.denyNodes.includes(claims.node)) return refuse('node_denied')
  return standing(trust, {
    tenant: mapping.tenant,
    runnerId: claims.node === null ? null : workloadRunnerId(claims.cluster, claims.node),
    mode: claims.mode,
    source: claims.cluster,
    identity: `system:serviceaccount:${claims.namespace}:${claims.serviceAccount}`,
  })
}

/** `<cluster>/<node>`, each `.` of the node `_`: RFC 1123 names hold neither `_` nor `/`, so no two nodes meet. */
export const workloadRunnerId = (cluster: string, node: string): string => `${cluster}/${node.replaceAll('.', '_')}`
