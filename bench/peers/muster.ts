// Muster on a local edge, in a process of its own: workerd alone behind plain http, and all of it behind TLS.

import { readFileSync } from 'node:fs'
import { enrollByKubernetes, enrollByToken } from '../kinds/enrollments.ts'
import type { Kind } from '../kinds/kind.ts'
import { warmRenewals } from '../kinds/renewals.ts'
import type { Shot } from '../load.ts'
import { startSite } from '../site.ts'
import { fresh, post, type Tls } from './http.ts'
import type { Pair, Product, Way, Work } from './product.ts'

export interface MusterKind {
  readonly kind: Kind
  readonly pair: Pair
  readonly proven: string
  readonly stored: string
}

/** Made anew for each edge: a kind has the runners of one. */
export const musterKinds = (): MusterKind[] => [
  { kind: warmRenewals(), pair: 'renewal', proven: 'signature by the old key', stored: 'lineage' },
  { kind: enrollByToken, pair: 'bootstrap token', proven: 'single-use token', stored: 'token, enrollment, event' },
  { kind: enrollByKubernetes, pair: 'kubernetes token', proven: 'RS256 token', stored: 'enrollment, event' },
]

export interface MusterWay extends Way {
  readonly kind: Kind
  readonly isBehindTls: boolean
}

export interface MusterProduct extends Product {
  readonly ways: readonly MusterWay[]
}

/** `total`: how many requests of a kind there will be. */
export async function startMuster(total: number, ending: AbortSignal): Promise<MusterProduct> {
  const site = await startSite({ isApart: true, ending })
  try {
    const roots = await (await fetch(`${site.url}/api/bundle.pem`)).text()
    const tls = { ca: readFileSync(site.caFile, 'utf8') }
    const ways: MusterWay[] = []
    for (const { kind, ...shared } of musterKinds()) {
      await kind.begin?.(site, total)
      const prepare = (url: string, own?: Tls) => async (count: number) =>
        (await kind.prepare(site, count)).map((shot) => workOf(shot, url, own))
      const way = { ...shared, kind, roots }
      const plain = { ...way, name: 'Muster', servers: [site.pid], isBehindTls: false }
      const behindTls = { ...way, name: 'Muster with its TLS', servers: [site.edgePid], isBehindTls: true }
      ways.push({ ...plain, prepare: prepare(site.url) }, { ...behindTls, prepare: prepare(site.tlsUrl, tls) })
    }
    return { ways, stop: site.stop }
  } catch (error) {
    await site.stop()
    throw error
  }
}

function workOf({ path, body, answered }: Shot, url: string, tls?: Tls): Work {
  return async () => {
    const sent = body()
    const answer = await fresh(url, tls, (client) => post(client, path, sent))
    answered?.(answer)
    const { certificate, chain } = JSON.parse(answer)
    return { certificate: `${certificate}\n${chain}`, csr: JSON.parse(sent).csr }
  }
}
