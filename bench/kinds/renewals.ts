// Renewals: by a few runners in turn, whose objects are in memory, and by many, whose objects must be loaded.

import { setTimeout as sleep } from 'node:timers/promises'
import { encodeBase64url, utf8 } from '../../src/protocol/bytes.ts'
import { enrollBody, makeRequester, type Requester } from '../../test/fakes/requester.ts'
import { type Shot, send } from '../load.ts'
import { ENROLL, make, post } from './enrollments.ts'
import type { Kind, Site } from './kind.ts'

/** A runner of the bench. Each renewal is prepared by the key of the one before and sent with its certificate. */
interface Runner {
  certificate: string
  keys: CryptoKeyPair
}

const CONNECTIONS = 8
/** A multiple of the connections, so that one runner's renewals are in order. */
const WARM_RUNNERS = 64

export function warmRenewals(): Kind {
  let runners: Runner[] = []
  let next = 0
  return {
    name: 'renew',
    status: 200,
    requests: { quick: 256, full: 2048 },
    begin: async (site) => {
      runners = await enrollRunners(site, WARM_RUNNERS)
    },
    prepare: (_, count) => make(count, () => renewal(runners[next++ % runners.length])),
  }
}

/** workerd drops an object from memory after 10 s without a request (`handleShutdown` in its server.c++). */
const UNLOADED_AFTER = 11_000

export function coldRenewals(): Kind {
  const runners: Runner[] = []
  let begunAt = 0
  return {
    name: 'renew-cold',
    status: 200,
    requests: { quick: 40, full: 2000 },
    begin: async (site, total) => {
      runners.push(...(await enrollRunners(site, total)))
      // The first renewal may make what later ones load.
      const first = await make(runners.length, (i) => renewal(runners[i]))
      await send(site.url, first, { connections: CONNECTIONS, status: 200 })
      begunAt = performance.now()
    },
    prepare: async (_, count) => {
      const shots = await make(count, () => renewal(runners.shift()))
      await sleep(Math.max(0, begunAt + UNLOADED_AFTER - performance.now()))
      return shots
    },
  }
}

/** Refused after all that a granted one costs: the certificate of an enrollment that has gone on without it. */
export function supersededRenewals(): Kind {
  let shots: Shot[] = []
  let next = 0
  return {
    name: 'renew-refused',
    status: 401,
    requests: { quick: 100, full: 1000 },
    begin: async (site) => {
      const runners = await enrollRunners(site, WARM_RUNNERS)
      const bodies = (await make(runners.length, (i) => renewal(runners[i]))).map((shot) => frozen(shot))
      const used = bodies.map(({ shot }) => shot)
      await send(site.url, used, { connections: CONNECTIONS, status: 200 })
      // Another renewal moves the lineage on, so that the first request, sent again, is an old one.
      await make(runners.length, async (i) => {
        const runner = runners[i]
        if (runner !== undefined) runner.certificate = bodies[i]?.certificate() ?? ''
      })
      await send(site.url, await make(runners.length, (i) => renewal(runners[i])), {
        connections: CONNECTIONS,
        status: 200,
      })
      shots = used
    },
    prepare: async (_, count) => Array.from({ length: count }, () => shots[next++ % shots.length]).filter(isShot),
  }
}

const isShot = (shot: Shot | undefined): shot is Shot => shot !== undefined

/** The same bytes each time it is sent. */
function frozen(shot: Shot): { readonly shot: Shot; readonly certificate: () => string } {
  const text = shot.body()
  let certificate = ''
  return {
    shot: {
      ...shot,
      body: () => text,
      answered: (body) => {
        certificate = JSON.parse(body).certificate ?? certificate
      },
    },
    certificate: () => certificate,
  }
}

async function enrollRunners(site: Site, count: number): Promise<Runner[]> {
  const tokens = await site.mint(count)
  const runners: Runner[] = []
  const shots = await make(count, async (i) => {
    const requester = await makeRequester()
    const runner: Runner = { certificate: '', keys: requester.keys }
    runners.push(runner)
    const shot = post(ENROLL, enrollBody(requester, { mode: 'bootstrap-token', token: tokens[i] }))
    return { ...shot, answered: (body: string) => keep(runner, body) }
  })
  await send(site.url, shots, { connections: CONNECTIONS, status: 200 })
  return runners
}

async function renewal(runner: Runner | undefined): Promise<Shot> {
  if (runner === undefined) throw new Error('there are too few runners for so many renewals')
  const requester = await makeRequester()
  const signature = await sign(runner.keys, requester)
  runner.keys = requester.keys
  return {
    method: 'POST',
    path: ENROLL,
    body: () =>
      JSON.stringify(enrollBody(requester, { mode: 'mtls-renewal', certificate: runner.certificate, signature })),
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
