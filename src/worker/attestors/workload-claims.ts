// Checks the claims of a verified ServiceAccount token, each for its type before its value. Pure.
// https://kubernetes.io/docs/reference/access-authn-authz/service-accounts-admin/#schema-for-service-account-private-claims

import { CLOCK_LEEWAY } from '../../protocol/limits.ts'
import { type Outcome, refuse } from '../../protocol/refusals.ts'
import { ok } from '../../protocol/result.ts'
import { isObject, type Json, type JsonObject } from '../../protocol/strict-json.ts'
import type { EpochSeconds } from '../../protocol/time.ts'
import { isSubdomain } from '../../trust/grammar.ts'
import type { Cluster, KubernetesClaims } from '../../trust/modes/kubernetes.ts'

/** Checks audience, times, lifetime, ServiceAccount, pod and node, in this order. */
export function readWorkload(claims: JsonObject, cluster: Cluster, now: EpochSeconds): Outcome<KubernetesClaims> {
  if (!isMeantForUs(claims.aud, cluster.audiences)) return refuse('audience_mismatch')

  const { exp, nbf, iat } = claims
  if (typeof exp === 'number' && !(now <= exp + CLOCK_LEEWAY)) return refuse('token_time')
  if (typeof iat === 'number' && !(now >= iat - CLOCK_LEEWAY)) return refuse('token_time')
  if (nbf !== undefined && !(typeof nbf === 'number' && now >= nbf - CLOCK_LEEWAY)) return refuse('token_time')

  // Both times are required (SPIRE 1.12.3 accepted a token without). NaN and Infinity fail these comparisons.
  if (typeof exp !== 'number' || typeof iat !== 'number') return refuse('token_lifetime')
  if (!(exp > iat && exp - iat <= cluster.maxTokenLifetime)) return refuse('token_lifetime')

  const workload = claims['kubernetes.io']
  if (!isObject(workload)) return refuse('workload_claims')
  const { namespace } = workload
  const serviceAccount = nameIn(workload.serviceaccount)
  if (!isName(namespace) || !isName(serviceAccount)) return refuse('workload_claims')
  if (claims.sub !== `system:serviceaccount:${namespace}:${serviceAccount}`) return refuse('workload_claims')

  const pod = nameIn(workload.pod)
  if (!isName(pod)) return refuse('pod_claim')
  const facts = { mode: cluster.mode, cluster: cluster.name, namespace, serviceAccount, pod }
  if (workload.node === undefined && cluster.nodeOptional) return ok({ ...facts, node: null })
  const node = nameIn(workload.node)
  return isName(node) ? ok({ ...facts, node }) : refuse('node_claim')
}

/** Exact membership. A string is one audience, never searched in; an array must hold strings only. */
function isMeantForUs(aud: Json | undefined, audiences: readonly string[]): boolean {
  const named = Array.isArray(aud) ? aud : [aud]
  return named.every((name) => typeof name === 'string') && named.some((name) => audiences.includes(name))
}

const nameIn = (reference: Json | undefined): Json | undefined => (isObject(reference) ? reference.name : undefined)

/** Without `/` and `_`, so that a runner ID made of it is unambiguous. */
const isName = (name: Json | undefined): name is string => typeof name === 'string' && isSubdomain(name)
