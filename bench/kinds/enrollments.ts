// Enrollments by a bootstrap token, by a Kubernetes token and by an AWS identity: each with a key and a proof of its own.

import { enrollBody, makeRequester, type Requester } from '../../test/fakes/requester.ts'
import type { Shot } from '../load.ts'
import type { Kind } from './kind.ts'

export const ENROLL = '/api/enroll'

export const post = (path: string, body: object): Shot => {
  const text = JSON.stringify(body)
  return { method: 'POST', path, body: () => text }
}

/** Makes `count` of something, one after another: a thousand keys at once only wait for each other. */
export async function make<T>(count: number, one: (i: number) => Promise<T>): Promise<T[]> {
  const made: T[] = []
  for (let i = 0; i < count; i++) made.push(await one(i))
  return made
}

const REQUESTS = { quick: 32, full: 1000 }

export const enrollByToken: Kind = {
  name: 'enroll',
  status: 200,
  requests: REQUESTS,
  prepare: async (site, count) => {
    const tokens = await site.mint(count)
    return make(count, async (i) => attested(await makeRequester(), { mode: 'bootstrap-token', token: tokens[i] }))
  },
}

/** A runner ID is that of the node, so each has one of its own. */
let nodes = 0

export const enrollByKubernetes: Kind = {
  name: 'kubernetes',
  status: 200,
  requests: REQUESTS,
  prepare: (site, count) =>
    make(count, async () => {
      const token = await site.kubernetesToken(`node-${nodes++}`)
      return attested(await makeRequester(), { mode: 'kubernetes', token })
    }),
}

export const enrollByAws: Kind = {
  name: 'aws',
  status: 200,
  requests: REQUESTS,
  prepare: (site, count) =>
    make(count, async () => {
      const requester = await makeRequester()
      return attested(requester, { mode: 'aws-sts', ...(await site.awsEvidence(requester.challengeNonce)) })
    }),
}

const attested = (requester: Requester, attestation: object): Shot => post(ENROLL, enrollBody(requester, attestation))
