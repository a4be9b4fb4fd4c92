// What stands between workerd's port and the Worker in `muster dev`: takes the terminator's word, and nobody else's.

import { equalBytes, utf8 } from '../protocol/bytes.ts'

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
      if (edge === undefined || !equalBytes(utf8(edge.secret), utf8(env.EDGE_SECRET))) {
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
      return readToEnd(new Request(new Request(url, request), { cf }), (whole) => worker.fetch(whole, env, context))
    },
  }
}

/** kj's `canceledUploadGraceBytes`. */
const CUT_OFF = 65_536
/** Milliseconds that an answer waits for the rest of a request that nobody wants. */
const PATIENCE = 1000

/**
 * workerd cuts a connection whose request it has answered with more than 64 KiB of the body unread, and the answer is
 * lost with it. Cloudflare's edge reads on; so a large body comes through a stream here, and what the Worker has no
 * use for is read and dropped before the answer leaves.
 */
async function readToEnd(request: Request, answer: (request: Request) => Promise<Response>): Promise<Response> {
  const { body } = request
  const length = request.headers.get('content-length')
  if (body === null || (length !== null && Number(length) <= CUT_OFF)) return answer(request)
  const { readable, writable } = new IdentityTransformStream()
  const { promise: answered, resolve } = Promise.withResolvers<void>()
  const end = pump(body, writable.getWriter(), answered)
  try {
    return await answer(new Request(request, { body: readable }))
  } finally {
    resolve()
    await Promise.race([end, new Promise((wake) => setTimeout(wake, PATIENCE))])
  }
}

/** Copies until the Worker has answered or wants no more, then reads on and drops. A client that went away ends it. */
async function pump(body: ReadableStream<Uint8Array>, writer: WritableStreamDefaultWriter, answered: Promise<void>) {
  let wanted = true
  const drop = () => {
    wanted = false
  }
  answered.then(drop)
  try {
    for await (const chunk of body) {
      if (wanted) await Promise.race([writer.write(chunk).catch(drop), answered])
    }
    if (wanted) await writer.close()
  } catch {
    await writer.abort().catch(drop)
  }
}
