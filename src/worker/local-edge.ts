// Guards workerd's port in `muster dev`: accepts only requests of the TLS terminator, and applies what it says of each.

import { equalBytes, utf8 } from '../protocol/bytes.ts'
import { SCHEDULED_PATH } from '../protocol/paths.ts'

/** Bindings that the local edge adds. */
export interface LocalEdgeEnv {
  /** The terminator's secret, a new one for each run. */
  readonly EDGE_SECRET: string
  /** Every cron of wrangler.toml. */
  readonly EDGE_CRONS: readonly string[]
}

/** The `cf` object of a request of the terminator: what Cloudflare's has, and the secret. */
interface EdgeMetadata {
  readonly edge?: { readonly secret: string }
}

interface Handlers<E> {
  readonly fetch: (request: Request, env: E, context: ExecutionContext) => Promise<Response>
  readonly scheduled: (event: ScheduledController, env: E, context: ExecutionContext) => Promise<void>
}

export function behindLocalEdge<E>(worker: Handlers<E>): Pick<Handlers<E & LocalEdgeEnv>, 'fetch'> {
  return {
    async fetch(request, env, context) {
      const { edge } = (request.cf ?? {}) as EdgeMetadata
      if (edge === undefined || !equalBytes(utf8(edge.secret), utf8(env.EDGE_SECRET))) {
        return new Response('only the local edge may call this port\n', { status: 403 })
      }
      const { pathname, searchParams } = new URL(request.url)
      if (pathname === SCHEDULED_PATH) {
        const named = searchParams.getAll('cron')
        for (const cron of named.length > 0 ? named : env.EDGE_CRONS) {
          await worker.scheduled({ cron, scheduledTime: Date.now(), noRetry: () => {} }, env, context)
        }
        return new Response('ok\n')
      }
      return readToEnd(request, (whole) => worker.fetch(whole, env, context))
    },
  }
}

/** kj's `canceledUploadGraceBytes`. */
const CUT_OFF = 65_536
/** Milliseconds that a response waits for the rest of its request. */
const DRAIN_TIME = 1000

/**
 * workerd closes a connection, and loses the response, where more than 64 KiB of the request body are unread by then.
 * Cloudflare's edge reads the rest. So here a large body goes through a stream, and what the Worker leaves unread is read
 * and dropped before the response is sent.
 */
async function readToEnd(request: Request, answer: (request: Request) => Promise<Response>): Promise<Response> {
  const { body, method, headers } = request
  // A body of one of these methods means nothing, and no Request can be made with one.
  if (body === null || method === 'GET' || method === 'HEAD') return answer(request)
  const length = headers.get('content-length')
  // As it came: a copy of a request costs as much as all that the Worker does to refuse one.
  if (length !== null && Number(length) <= CUT_OFF) return answer(request)
  const { readable, writable } = new IdentityTransformStream()
  const { promise: answered, resolve } = Promise.withResolvers<void>()
  const end = pump(body, writable.getWriter(), answered)
  try {
    return await answer(new Request(request, { body: readable }))
  } finally {
    resolve()
    await Promise.race([end, new Promise((wake) => setTimeout(wake, DRAIN_TIME))])
  }
}

/** Copies until the Worker has answered or cancels, then reads on and drops. Ends where the client goes away. */
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
