// Tests request bodies, response bodies and WebSockets through the two ports of the local edge.
import { mkdtempSync, rmSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { WebSocket } from 'ws'
import { type EchoEdge, startEchoEdge } from './echo-edge.ts'

let edge: EchoEdge
const scratch = mkdtempSync(join(tmpdir(), 'muster-streams-'))
beforeAll(async () => {
  edge = await startEchoEdge(scratch)
})
afterAll(async () => {
  await edge.stop()
  rmSync(scratch, { recursive: true })
})

describe('bodies', () => {
  test('go through in both directions as they come', async () => {
    expect((await edge.send(edge.url, { path: '/upload', method: 'POST', body: new Uint8Array(3_000_000) })).body).toBe(
      '3000000',
    )
    expect((await edge.send(edge.tlsUrl, { path: '/stream' })).body).toBe('one\ntwo\nthree\n')
  })

  test('a refusal comes through while the client is still sending', async () => {
    const answer = await edge.send(edge.tlsUrl, { path: '/refuse', method: 'POST', body: new Uint8Array(1_000_000) })
    expect(answer).toMatchObject({ status: 413, body: 'too much' })
  })

  test.each(['5', undefined])('a body that belongs to no GET is let go, of length %s', async (length) => {
    const framing = length === undefined ? { 'transfer-encoding': 'chunked' } : { 'content-length': length }
    const sent = { path: '/stream', headers: framing, body: new Uint8Array(5) }
    expect(await edge.send(edge.url, sent)).toMatchObject({ status: 200, body: 'one\ntwo\nthree\n' })
  })

  test('a client that goes away takes nothing with it', async () => {
    const { port } = new URL(edge.url)
    await Promise.all(
      Array.from({ length: 20 }, async () => {
        const socket = connect(Number(port), '127.0.0.1')
        socket.write('POST /upload HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nabc')
        await new Promise((resolve) => setTimeout(resolve, 20))
        socket.destroy()
      }),
    )
    expect((await edge.reach(edge.url)).method).toBe('GET')
  })

  test('connections are kept for the next request', async () => {
    const { port } = new URL(edge.url)
    const socket = connect(Number(port), '127.0.0.1')
    socket.write(
      'GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\nGET /stream HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n',
    )
    let text = ''
    for await (const chunk of socket) text += chunk
    expect(text.match(/HTTP\/1\.1 200/g)).toHaveLength(2)
  })
})

describe('sockets', () => {
  const open = (base: string, headers: Record<string, string> = {}) =>
    new WebSocket(new URL('/socket', base.replace('http', 'ws')), { ca: edge.ca, headers })

  test.each(['http', 'https'])('messages, pings and close codes go through over %s', async (scheme) => {
    const socket = open(scheme === 'http' ? edge.url : edge.tlsUrl)
    await new Promise((resolve) => socket.once('open', resolve))
    const pong = new Promise<Buffer>((resolve) => socket.once('pong', resolve))
    socket.ping('beat')
    expect((await pong).toString()).toBe('beat')
    const echo = new Promise<Buffer>((resolve) => socket.once('message', resolve))
    socket.send('hello'.repeat(50_000))
    expect((await echo).toString()).toHaveLength(250_000)
    const closed = new Promise<[number, string]>((resolve) => {
      socket.once('close', (code, reason) => resolve([code, reason.toString()]))
    })
    socket.send('bye')
    expect(await closed).toEqual([4003, 'banned'])
  })

  test('a refused upgrade is answered like any request', async () => {
    const socket = new WebSocket(new URL('/refuse', edge.tlsUrl.replace('http', 'ws')), { ca: edge.ca })
    const status = await new Promise((resolve) =>
      socket.on('unexpected-response', (_, answer) => resolve(answer.statusCode)),
    )
    expect(status).toBe(413)
  })

  test('an upgrade to something else is an ordinary request', async () => {
    const headers = { connection: 'Upgrade, HTTP2-Settings', upgrade: 'h2c', 'http2-settings': 'AAMAAABkAAQAAP__' }
    expect((await edge.reach(edge.url, { headers })).method).toBe('GET')
  })
})
