// Renewals: the first of an enrollment, by runners in turn whose objects are in memory, and by others whose are not.

import { setTimeout as sleep } from 'node:timers/promises'
import { encodeBase64url, utf8 } from '../../src/protocol/bytes.ts'
import { enrollBody, makeRequester, type Requester } from '../../test/fakes/requester.ts'
import { type Shot, send } from '../load.ts'
import { ENROLL, make, post } from './enrollments.ts'
import type { Kind, Site } from './kind.ts'
import { FLOOD } from './refusals.ts'

/** A runner of the bench. Each renewal is prepared with the key of the one before, and sent with its certificate. */
interface Runner {
  certificate: string
  keys: CryptoKeyPair
}

const GRANTED = { connections: 8, status: 200 }
/**
 * Runners that renew in turn. A multiple of the number of connections, as are the requests of a run, so that the renewals of
 * one runner are in order.
 */
export const IN_TURN = 64

/** What an enrollment costs once more where its runner comes back at all: its object begins. */
export function firstRenewals(): Kind {
  const runners: Runner[] = []
  return {
    name: 'renew-first',
    status: 200,
    requests: { quick: 24, full: 1000 },
    begin: async (site, total) => void runners.push(...(await enrollRunners(site, total))),
    prepare: (_, count) => make(count, () => renewal(runners.shift())),
  }
}

export function warmRenewals(): Kind {
  let runners: Runner[] = []
  let next = 0
  return {
    name: 'renew',
    status: 200,
    requests: { quick: 96, full: 2048 },
    objects: IN_TURN,
    begin: async (site, total) => {
      runners = await begunRunners(site, Math.min(total, IN_TURN))
    },
    prepare: (_, count) => make(count, () => renewal(runners[next++ % runners.length])),
  }
}

/** Milliseconds. workerd drops an object from memory after 10 s without a request (`handleShutdown` in its server.c++). */
const UNLOADED_AFTER = 11_000

export function coldRenewals(): Kind {
  const runners: Runner[] = []
  let begunAt = 0
  return {
    name: 'renew-cold',
    status: 200,
    requests: { quick: 24, full: 1667 },
    isCold: true,
    begin: async (site, total) => {
      runners.push(...(await begunRunners(site, total)))
      begunAt = performance.now()
    },
    prepare: async (_, count) => {
      const shots = await make(count, () => renewal(runners.shift()))
      await sleep(Math.max(0, begunAt + UNLOADED_AFTER - performance.now()))
      return shots
    },
  }
}

/** Proven and refused by the object: an old request, sent again after another renewal. */
export function supersededRenewals(): Kind {
  let old: readonly Shot[] = []
  return {
    name: 'renew-refused',
    isExtra: true,
    status: 401,
    settlesAfter: FLOOD,
    requests: { quick: 48, full: 1000 },
    objects: IN_TURN,
    begin: async (site, total) => {
      const runners = await enrollRunners(site, Math.min(total, IN_TURN))
      const shots = (await make(runners.length, (i) => renewal(runners[i]))).map((shot) => {
        const text = shot.body()
        return { ...shot, body: () => text }
      })
      await send(site.url, shots, GRANTED)
      await renewAll(site, runners)
      old = shots.map(({ method, path, body }) => ({ method, path, body }))
    },
    prepare: async (_, count) => Array.from({ length: count }, (_, i) => old[i % old.length] ?? []).flat(),
  }
}

/** Runners whose objects have begun. */
async function begunRunners(site: Site, count: number): Promise<Runner[]> {
  const runners = await enrollRunners(site, count)
  await renewAll(site, runners)
  return runners
}

const renewAll = async (site: Site, runners: readonly Runner[]): Promise<unknown> =>
  send(site.url, await make(runners.length, (i) => renewal(runners[i])), GRANTED)

async function enrollRunners(site: Site, count: number): Promise<Runner[]> {
  const tokens = await site.mint(count)
  const runners: Runner[] = []
  const shots = await make(count, async (i): Promise<Shot> => {
    const requester = await makeRequester()
    const runner: Runner = { certificate: '', keys: requester.keys }
    runners.push(runner)
    const shot = post(ENROLL, enrollBody(requester, { mode: 'bootstrap-token', token: tokens[i] }))
    return { ...shot, answered: (body) => keep(runner, body) }
  })
  await send(site.url, shots, GRANTED)
  return runners
}

async function renewal(runner: Runner | undefined): Promise<Shot> {
  if (runner === undefined) throw new Error('there are too few runners for so many renewals')
  const requester = await makeRequester()
  const signature = await sign(runner.keys, requester)
  runner.keys = requester.keys
  const evidence = () => ({ mode: 'mtls-renewal', certificate: runner.certificate, signature })
  return {
    method: 'POST',
    path: ENROLL,
    body: () => JSON.stringify(enrollBody(requester, evidence())),
    answered: (body) => keep(runner, body),
  }
}

function keep(runner: Runner, body: string): void {
  runner.certificate = JSON.parse(body).certificate
}

async function sign(keys: CryptoKeyPair, { challengeNonce }: Requester): Promise<string> {
  const algorithm = { name: 'ECDSA', hash: 'SHA-256' }
  return encodeBase64url(new Uint8Array(await crypto.subtle.sign(algorithm, keys.privateKey, utf8(challengeNonce))))
}
