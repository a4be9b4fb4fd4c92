// A forward proxy on loopback that knows CONNECT alone, over http or TLS, with certificates for itself and for the
// servers behind it.

import 'reflect-metadata'
import { createServer, type IncomingMessage, type Server } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { SubjectAlternativeNameExtension, X509CertificateGenerator } from '@peculiar/x509'
import type { Network } from '../../src/node/http-client.ts'
import { DIRECT, type ProxyRules, proxyRules } from '../../src/node/proxy-rules.ts'
import { generateP256, pem } from './ca-forge.ts'

/** Of a machine whose environment names no proxy and no root. */
export const directly: Network = { rules: DIRECT, extraRoots: () => null, rootsVariable: 'RUNNER_CA_PEM' }

export function rulesOf(env: NodeJS.ProcessEnv): ProxyRules {
  const rules = proxyRules(env)
  if (!rules.ok) throw new Error(rules.error)
  return rules.value
}

/** PEM; each is its own root. */
export interface SelfSigned {
  readonly key: string
  readonly cert: string
}

interface Name {
  readonly type: 'dns' | 'ip'
  readonly value: string
}

export async function selfSigned(...given: (Name | 'expired')[]): Promise<SelfSigned> {
  const names = given.filter((one) => one !== 'expired')
  const end = Date.now() + (given.length > names.length ? -1 : 1) * 3_600_000
  const keys = await generateP256()
  const certificate = await X509CertificateGenerator.createSelfSigned({
    keys,
    // A root is found by its name.
    name: `CN=${names[0]?.value}`,
    signingAlgorithm: { name: 'ECDSA', hash: 'SHA-256' },
    notBefore: new Date(Date.now() - 7_200_000),
    notAfter: new Date(end),
    extensions: [new SubjectAlternativeNameExtension(names)],
  })
  const key = new Uint8Array((await crypto.subtle.exportKey('pkcs8', keys.privateKey)) as ArrayBuffer)
  return { key: pem('PRIVATE KEY', key), cert: pem('CERTIFICATE', new Uint8Array(certificate.rawData)) }
}

export class ForwardProxy {
  /** What CONNECT asked for, with user name and password where some were sent. */
  readonly asked: string[] = []
  /** The server names (SNI) that clients of the TLS one sent; false: none. */
  readonly serverNames: (string | false | null | undefined)[] = []
  /** In place of a tunnel. */
  answer: ((socket: Socket, request: IncomingMessage) => void) | null = null
  readonly port: number
  readonly #server: Server
  readonly #open = new Set<Socket>()

  /** Every host is reached at `target`, a port of loopback. */
  static async start(target: number, tls: SelfSigned | null = null): Promise<ForwardProxy> {
    const server = tls === null ? createServer() : createTlsServer(tls)
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    return new ForwardProxy(server, target)
  }

  private constructor(server: Server, target: number) {
    this.#server = server
    this.port = (server.address() as AddressInfo).port
    server.on('secureConnection', (socket) => this.serverNames.push(socket.servername))
    server.on('connection', (socket: Socket) => {
      this.#open.add(socket)
      socket.on('close', () => this.#open.delete(socket)).on('error', () => {})
    })
    server.on('connect', (request, socket) => {
      const [, credentials = ''] = request.headers['proxy-authorization']?.split(' ') ?? []
      const suffix = credentials === '' ? '' : ` ${Buffer.from(credentials, 'base64')}`
      this.asked.push(`${request.url}${suffix}`)
      socket.on('error', () => {})
      if (this.answer !== null) return this.answer(socket as Socket, request)
      const through = connect(target, '127.0.0.1', () => {
        socket.write('HTTP/1.1 200 Connection established\r\n\r\n')
        through.pipe(socket).pipe(through)
      })
      through.on('error', () => socket.destroy())
      socket.on('close', () => through.destroy())
    })
  }

  /** Connections that are open right now. */
  get connections(): number {
    return this.#open.size
  }

  close(): void {
    this.#server.close()
    for (const socket of this.#open) socket.destroy()
  }
}
