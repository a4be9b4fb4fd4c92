// Builds `request.cf` for a request to the local edge: what the Worker reads of it, and what shows in its logs.

import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { TLSSocket } from 'node:tls'

export type Scheme = 'http' | 'https'

/** Miniflare's header for the `cf` object of a request: `cfBlobHeader` of raw workerd. */
export const CF_HEADER = 'MF-CF-Blob'

/** The DER of a leaf over this many octets is left out, with `certRFC9440TooLarge`. */
const LARGEST_LEAF = 10 * 1024

/** JSON all through. There is no subject alternative name in it, as there is none at Cloudflare. */
export function cfOf(request: IncomingMessage): Record<string, unknown> {
  const { socket } = request
  return {
    // Without it workerd takes the client for one that accepts compressed answers.
    clientAcceptEncoding: request.headers['accept-encoding'] ?? '',
    colo: 'DEV',
    httpProtocol: `HTTP/${request.httpVersion}`,
    tlsVersion: socket instanceof TLSSocket ? (socket.getProtocol() ?? '') : '',
    tlsClientAuth: clientAuthOf(socket),
  }
}

/** A connection's client certificate does not change: renegotiation is off. */
const known = new WeakMap<Socket, Record<string, unknown>>()

function clientAuthOf(socket: Socket): Record<string, unknown> {
  const clientAuth = known.get(socket) ?? readClientAuth(socket)
  known.set(socket, clientAuth)
  return clientAuth
}

function readClientAuth(socket: Socket): Record<string, unknown> {
  if (!(socket instanceof TLSSocket)) return NONE
  const leaf = socket.getPeerX509Certificate()
  if (leaf === undefined) return NONE
  const tooLarge = leaf.raw.length > LARGEST_LEAF
  return {
    ...NONE,
    certPresented: '1',
    // As on a hostname whose client-certificate mTLS knows only Cloudflare's own CA.
    certVerified: `FAILED:${socket.authorizationError ?? 'unable to verify the first certificate'}`,
    certSubjectDN: lines(leaf.subject),
    certSerial: leaf.serialNumber,
    certRFC9440: tooLarge ? '' : `:${leaf.raw.toString('base64')}:`,
    certRFC9440TooLarge: tooLarge,
  }
}

/** Node gives a name line by line, the first attribute first; RFC 4514 has the last one first. */
const lines = (name: string): string => (name ?? '').split('\n').reverse().join(',')

const NONE = {
  certPresented: '0',
  certVerified: 'NONE',
  certRevoked: '0',
  certSubjectDN: '',
  certSerial: '',
  certRFC9440: '',
  certRFC9440TooLarge: false,
}
