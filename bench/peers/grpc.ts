// Calls gRPC methods that take one message and answer with one, over node:http2.

import type { ClientHttp2Session } from 'node:http2'

/** A flag for compression and the length of the message. */
const PREFIX = 5

/** Throws with the server's words where the status is not OK. */
export function call(session: ClientHttp2Session, path: string, message: Uint8Array): Promise<Uint8Array> {
  const framed = Buffer.alloc(PREFIX + message.length)
  framed.writeUInt32BE(message.length, 1)
  framed.set(message, PREFIX)
  return new Promise((resolve, reject) => {
    session.once('error', reject)
    const stream = session.request({
      ':method': 'POST',
      ':path': path,
      'content-type': 'application/grpc',
      te: 'trailers',
    })
    const chunks: Buffer[] = []
    let status: unknown
    let words: unknown
    const note = (headers: Readonly<Record<string, unknown>>) => {
      status ??= headers['grpc-status']
      words ??= headers['grpc-message']
    }
    // An answer without a message has its status in the headers.
    stream.on('response', note)
    stream.on('trailers', note)
    stream.on('data', (chunk) => chunks.push(chunk))
    stream.on('error', reject)
    stream.on('close', () => {
      session.off('error', reject)
      const whole = Buffer.concat(chunks)
      if (status !== '0') reject(new Error(`${path}: gRPC status ${status}: ${words}`))
      else resolve(whole.subarray(PREFIX, PREFIX + whole.readUInt32BE(1)))
    })
    stream.end(framed)
  })
}
