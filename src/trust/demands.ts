// Tells operators what the trust file demands of a request that was refused. Pure; it decides nothing.

import type { Labels } from '../protocol/refusals.ts'
import type { Seconds } from '../protocol/time.ts'
import type { CompiledTrust } from './compiled.ts'
import { AWS_REGION, ISSUER } from './grammar.ts'
import type { AwsMapping } from './modes/aws-sts.ts'
import type { Cluster } from './modes/kubernetes.ts'

/** The fields of a refusal's event that the answer depends on. */
export interface Seen {
  readonly reason: string | null
  readonly source: string | null
  readonly identity: string | null
  readonly claimed: Labels | null
}

/** One sentence for each demand; empty where the refusal does not depend on the trust file. */
export function demandsOf(trust: CompiledTrust, seen: Seen): string[] {
  const { claimed, source } = seen
  const cluster = trust.clusters.find(
    ({ name, issuer }) => [claimed?.cluster, source].includes(name) || issuer === claimed?.iss,
  )
  switch (seen.reason) {
    case 'issuer_unknown':
      return issuerDemands(trust, claimed?.iss)
    case 'aws_region':
      return regionDemands(trust, claimed?.region)
    case 'tenant_none':
    case 'standing_lost':
      return mappingDemands(trust, cluster, seen)
    case 'certificate_invalid':
      return [`certificates are of the trust domain ${[trust.trustDomain, ...trust.alsoTrust].join(' or ')}`]
    case 'reattest':
      return [
        `certificate.reattest is ${trust.certificate.reattest === null ? 'off' : text(trust.certificate.reattest)}`,
      ]
    default:
      return cluster === undefined ? [] : clusterDemands(cluster, seen)
  }
}

function clusterDemands(cluster: Cluster, { reason, claimed }: Seen): string[] {
  const { name, audiences, maxTokenLifetime, denyNodes, nodeOptional, workload } = cluster
  switch (reason) {
    case 'audience_mismatch':
      return [`cluster ${name} takes the audience ${audiences.join(' or ')}`]
    case 'token_lifetime':
      return [`cluster ${name} takes at most ${text(maxTokenLifetime)} from iat to exp${sentLifetime(claimed)}`]
    case 'token_time':
      return [`cluster ${name} takes a token from nbf and iat to exp, each with 60 s of leeway`]
    case 'workload_claims':
      return [`cluster ${name} takes the ServiceAccount that sub and the kubernetes.io claims name alike`]
    case 'node_claim':
      return nodeOptional || denyNodes.length === 0
        ? []
        : [`cluster ${name} has deny.nodes, so node: optional is not for it`]
    case 'node_denied':
      return [`cluster ${name} denies the nodes ${denyNodes.join(', ')}`]
    case 'runner_id_none':
      return [
        `cluster ${name} names the runners of ${workload === null ? 'no ServiceAccount' : `${workload.namespace}/${workload.serviceAccount} alone`}`,
      ]
    case 'keys_never_fetched':
    case 'keys_stale':
    case 'keys_none_usable':
    case 'keys_fetch_failed':
    case 'jwks_uri_refused':
    case 'jws_header':
    case 'key_unknown':
    case 'key_algorithm':
    case 'signature_invalid':
      return [`cluster ${name} takes keys of ${keySourceOf(cluster)}`]
    default:
      return []
  }
}

const text = (seconds: Seconds): string => `${seconds}s`

function sentLifetime(claimed: Labels | null): string {
  const lifetime = Number(claimed?.exp) - Number(claimed?.iat)
  return Number.isFinite(lifetime) ? `; this token has ${lifetime}s` : ''
}

function keySourceOf({ keys, issuer }: Cluster): string {
  if (keys.from === 'file') return 'its jwksFile'
  return keys.from === 'uri' ? keys.uri : `the discovery document of ${issuer}`
}

function issuerDemands({ clusters }: CompiledTrust, iss: string | undefined): string[] {
  const known = clusters.map(({ name, issuer }) => `${issuer} (${name})`)
  const fault = iss === undefined ? null : ISSUER.fault(iss)
  const twin = clusters.find(({ issuer }) => issuer === `${iss}/` || `${issuer}/` === iss)
  return [
    known.length === 0 ? 'it has no clusters' : `its issuers are ${known.join(', ')}`,
    ...(fault === null ? [] : [`no cluster can have this issuer: it ${fault}`]),
    ...(twin === undefined
      ? []
      : [`cluster ${twin.name} differs by a / at the end: correct its issuer, both cannot be registered`]),
  ]
}

function regionDemands({ aws }: CompiledTrust, region: string | undefined): string[] {
  const isOther = region !== undefined && !AWS_REGION.allowed(region)
  return [
    `aws.regions is ${aws.regions.join(', ')}`,
    ...(isOther ? ['it takes regions of the commercial partition alone, and this is none: set AWS_REGION'] : []),
  ]
}

/** The mappings of the caller's account or cluster, else the tenants. */
function mappingDemands(trust: CompiledTrust, cluster: Cluster | undefined, seen: Seen): string[] {
  // The account goes first, since a cluster may have an account's number as its name.
  const account = accountOf(seen)
  if (account !== null) {
    const mapped = trust.awsMappings.filter((mapping) => mapping.account === account)
    return [`AWS account ${account} maps ${mapped.map(awsText).join(', ') || 'nobody'}`]
  }
  if (cluster !== undefined) {
    const mapped = trust.kubernetesMappings.filter((mapping) => mapping.cluster === cluster.name)
    const list = mapped.map((m) => `${m.namespace}/${m.serviceAccount} → ${m.tenant}`)
    return [`cluster ${cluster.name} maps ${list.join(', ') || 'no ServiceAccount'}`]
  }
  return [`its tenants are ${trust.tenants.join(', ')}`]
}

const awsText = ({ principal, tenant }: AwsMapping): string =>
  `${principal === null ? 'the whole account' : `${principal.kind} ${principal.name}`} → ${tenant}`

/** The fifth part of an ARN is the account. */
const accountOf = ({ identity }: Seen): string | null =>
  identity?.startsWith('arn:') ? (identity.split(':')[4] ?? null) : null
