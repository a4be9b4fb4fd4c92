// A Worker behind the local edge that answers with the request it got. Not a test itself.
import { behindLocalEdge } from '../../../src/worker/local-edge.ts'

interface Env {
  readonly DB: D1Database
  readonly [variable: string]: unknown
}

// biome-ignore lint/style/noDefaultExport: workerd takes the entry from there
export default behindLocalEdge<Env>({
  async fetch(request, env) {
    const url = new URL(request.url)
    switch (url.pathname) {
      case '/socket':
        return request.headers.get('upgrade') === 'websocket' ? socket() : new Response('refused', { status: 426 })
      case '/stream':
        return new Response(slowly(['one\n', 'two\n', 'three\n']))
      case '/upload':
        return new Response(String((await request.arrayBuffer()).byteLength))
      case '/refuse':
        return new Response('too much', { status: 413 })
      case '/out':
        return out(request)
      case '/log':
        console.log('a line\nand another')
        return new Response()
      default:
        return Response.json({
          url: request.url,
          method: request.method,
          headers: Object.fromEntries(request.headers),
          cf: request.cf,
          variables: Object.fromEntries(Object.entries(env).filter(([, value]) => typeof value === 'string')),
          ran: crons,
        })
    }
  },
  scheduled: async ({ cron }) => {
    crons.push(cron)
  },
})

const crons: string[] = []

function socket(): Response {
  const { 0: client, 1: server } = new WebSocketPair()
  server.accept()
  server.addEventListener('message', ({ data }) => {
    if (data === 'bye') server.close(4003, 'banned')
    else server.send(data)
  })
  return new Response(null, { status: 101, webSocket: client })
}

function slowly(parts: readonly string[]): ReadableStream {
  const { readable, writable } = new TransformStream()
  const write = async () => {
    const writer = writable.getWriter()
    for (const part of parts) await writer.write(new TextEncoder().encode(part))
    await writer.close()
  }
  void write()
  return readable
}

/** Asks what the body says and answers with what came back, or with the error's name. */
async function out(request: Request): Promise<Response> {
  const { url, ...init } = (await request.json()) as { url: string }
  try {
    const answer = await fetch(url, init)
    const headers = Object.fromEntries(answer.headers)
    return Response.json({ status: answer.status, headers, url: answer.url, body: await answer.text() })
  } catch (error) {
    return Response.json({ error: String(error) })
  }
}
