// The claims of a verified ServiceAccount token, each held to its type before it is used. Pure.
// https://kubernetes.io/docs/reference/access-authn-authz/service-accounts-admin/#schema-for-service-account-private-claims

import { CLOCK_LEEWAY } from '../../protocol/limits.ts'
import { type Outcome, refuse } from '../../protocol/refusals.ts'
import { ok } from '../../protocol/result.ts'
import { isObject, type Json, type JsonObject } from '../../protocol/strict-json.ts'
import type { EpochSeconds } from '../../protocol/time.ts'
import { isSubdomain } from '../../trust/grammar.ts'
import type { Cluster, KubernetesClaims } from '../../trust/modes/kubernetes.ts'

/** Audience, times, life, ServiceAccount, pod and node, in this order. */
export function readWorkload(claims: JsonObject, cluster: Cluster, now: EpochSeconds): Outcome<KubernetesClaims> {
  if (!isMeantForUs(claims.aud, cluster.audiences)) return refuse('audience_mismatch')

  const { exp, nbf, iat } = claims
  if (typeof exp === 'number' && !(now <= exp + CLOCK_LEEWAY)) return refuse('token_time')
  if (typeof iat === 'number' && !(now >= iat - CLOCK_LEEWAY)) return refuse('token_time')
  if (nbf !== undefined && !(typeof nbf === 'number' && now >= nbf - CLOCK_LEEWAY)) return refuse('token_time')

  // A missing time is no time that was kept (SPIRE 1.12.3); the comparisons are such that NaN and Infinity fail.
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

/** Exact membership. A string is one audience, never a text to search in; an array of anything else is none. */
function isMeantForUs(aud: Json | undefined, audiences: readonly string[]): boolean {
  const named = Array.isArray(aud) ? aud : [aud]
  return named.every((name) => typeof name === 'string') && named.some((name) => audiences.includes(name))
}

const nameIn = (reference: Json | undefined): Json | undefined => (isObject(reference) ? reference.name : undefined)

/** So it holds no `/` and no `_`, and a runner ID made of it can be read one way only. */
const isName = (name: Json | undefined): name is string => typeof name === 'string' && isSubdomain(name)
