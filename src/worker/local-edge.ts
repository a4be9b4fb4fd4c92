// What stands between workerd's port and the Worker in `muster dev`: takes the terminator's word, and nobody else's.

/** What the local edge adds to the Worker's environment. */
export interface LocalEdgeEnv {
  /** What the terminator proves itself with, anew for every run. */
  readonly EDGE_SECRET: string
  /** Every cron of wrangler.toml. */
  readonly EDGE_CRONS: readonly string[]
}

/** The terminator's word on a request, inside the `cf` object that it hands over. */
interface Word {
  readonly secret: string
  readonly scheme: 'http' | 'https'
}

interface Handlers<E> {
  readonly fetch: (request: Request, env: E, context: ExecutionContext) => Promise<Response>
  readonly scheduled: (event: ScheduledController, env: E, context: ExecutionContext) => Promise<void>
}

/** Runs every cron job, or the ones named by `?cron=`. */
const SCHEDULED = '/cdn-cgi/local/scheduled'

export function behindLocalEdge<E>(worker: Handlers<E>): Pick<Handlers<E & LocalEdgeEnv>, 'fetch'> {
  return {
    async fetch(request, env, context) {
      const { edge, ...cf } = (request.cf ?? {}) as { readonly edge?: Word }
      if (edge === undefined || !isSame(edge.secret, env.EDGE_SECRET)) {
        return new Response('only the local edge may call this port\n', { status: 403 })
      }
      const url = new URL(request.url)
      url.protocol = edge.scheme
      if (url.pathname === SCHEDULED) {
        const named = url.searchParams.getAll('cron')
        for (const cron of named.length > 0 ? named : env.EDGE_CRONS) {
          await worker.scheduled({ cron, scheduledTime: Date.now(), noRetry: () => {} }, env, context)
        }
        return new Response('ok\n')
      }
      return worker.fetch(new Request(new Request(url, request), { cf }), env, context)
    },
  }
}

function isSame(given: string, secret: string): boolean {
  const [a, b] = [given, secret].map((text) => new TextEncoder().encode(text))
  return a !== undefined && b !== undefined && a.length === b.length && crypto.subtle.timingSafeEqual(a, b)
}
