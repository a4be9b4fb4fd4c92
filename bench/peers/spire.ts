// SPIRE: a join token for an agent's certificate, and RenewAgent, which proves the certificate by mTLS.

import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { connect as connectHttp2, type SecureClientSessionOptions } from 'node:http2'
import { connect as connectSocket } from 'node:net'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { BinaryReader, BinaryWriter } from '@bufbuild/protobuf/wire'
import { freePort } from '../../test/end-to-end/processes.ts'
import { make } from '../kinds/enrollments.ts'
import { IN_TURN } from '../kinds/renewals.ts'
import { call } from './grpc.ts'
import { derOf, makeKeyAndCsr, pemOf } from './pki.ts'
import type { Issued, Place, Product, Work } from './product.ts'
import { startProgram } from './program.ts'

const AGENT = '/spire.api.server.agent.v1.Agent'

const configOf = (folder: string, port: number): string => `server {
  bind_address = "127.0.0.1"
  bind_port = "${port}"
  socket_path = "${join(folder, 'api.sock')}"
  trust_domain = "bench.test"
  data_dir = "${folder}"
  log_level = "ERROR"
  ca_key_type = "ec-p256"
  agent_ttl = "15m"
  ratelimit {
    attestation = false
    signing = false
  }
}
plugins {
  DataStore "sql" {
    plugin_data {
      database_type = "sqlite3"
      connection_string = "${join(folder, 'datastore.sqlite3')}"
    }
  }
  KeyManager "memory" {
    plugin_data {}
  }
  NodeAttestor "join_token" {
    plugin_data {}
  }
}
`

export async function startSpire({ program, folder }: Place): Promise<Product> {
  const port = await freePort()
  const socket = join(folder, 'api.sock')
  writeFileSync(join(folder, 'server.hcl'), configOf(folder, port))
  const bundle = async (): Promise<string> =>
    (await promisify(execFile)(program, ['bundle', 'show', '-socketPath', socket])).stdout
  const { pid, stop } = await startProgram(program, ['run', '-config', 'server.hcl'], folder, bundle)
  const roots = await bundle()
  const url = `https://127.0.0.1:${port}`

  const joinTokens = async (count: number): Promise<string[]> => {
    const session = connectHttp2('http://localhost', { createConnection: () => connectSocket(socket) })
    const tokens: string[] = []
    try {
      for (let i = 0; i < count; i++) {
        const answer = await call(session, `${AGENT}/CreateJoinToken`, new BinaryWriter().uint32(8).int32(600).finish())
        tokens.push(Buffer.from(field(answer, 1)).toString())
      }
    } finally {
      session.close()
    }
    return tokens
  }

  /** Over a connection of its own. A server's certificate names it by URI, which Node does not look at. */
  const ask = async (method: string, message: Uint8Array, own: SecureClientSessionOptions = {}) => {
    const session = connectHttp2(url, { ca: roots, checkServerIdentity: () => undefined, ...own })
    try {
      return await call(session, `${AGENT}/${method}`, message)
    } finally {
      session.destroy()
    }
  }

  interface Agent extends Issued {
    readonly key: string
  }
  const attests = async (count: number): Promise<(() => Promise<Agent>)[]> => {
    const tokens = await joinTokens(count)
    return make(count, async (i) => {
      const token = tokens[i] ?? ''
      const { key, csr } = await makeKeyAndCsr('agent')
      const data = message([1, Buffer.from('join_token')], [2, Buffer.from(token)])
      const request = message([1, message([1, data], [2, message([1, derOf(csr)])])])
      return async () => {
        const result = field(await ask('AttestAgent', request), 1)
        return { key, csr, certificate: chainOf(field(result, 1)) }
      }
    })
  }

  const agents: Agent[] = []
  let next = 0
  const renew = async (count: number): Promise<Work[]> => {
    for (const attest of await attests(IN_TURN - agents.length)) agents.push(await attest())
    return make(count, async () => {
      const at = next++ % agents.length
      const { key, csr } = await makeKeyAndCsr('agent')
      const request = message([1, message([1, derOf(csr)])])
      return async () => {
        const agent = agents[at]
        const answer = await ask('RenewAgent', request, { key: agent?.key ?? '', cert: agent?.certificate ?? '' })
        const certificate = chainOf(field(answer, 1))
        agents[at] = { key, csr, certificate }
        return { csr, certificate }
      }
    })
  }

  const shared = { servers: [pid], roots, stored: 'agent row' }
  return {
    stop,
    ways: [
      { ...shared, pair: 'renewal', name: 'SPIRE RenewAgent', proven: 'certificate by mTLS', prepare: renew },
      { ...shared, pair: 'bootstrap token', name: 'SPIRE AttestAgent', proven: 'join token', prepare: attests },
    ],
  }
}

/** A protobuf message whose fields are all octets, texts or messages. */
function message(...fields: readonly [number: number, octets: Uint8Array][]): Uint8Array {
  const writer = new BinaryWriter()
  for (const [number, octets] of fields) writer.uint32((number << 3) | LENGTH_DELIMITED).bytes(octets)
  return writer.finish()
}
const LENGTH_DELIMITED = 2

/** The values of a field of octets, texts or messages. */
function fields(octets: Uint8Array, wanted: number): Uint8Array[] {
  const reader = new BinaryReader(octets)
  const found: Uint8Array[] = []
  while (reader.pos < reader.len) {
    const [number, type] = reader.tag()
    if (number === wanted) found.push(reader.bytes())
    else reader.skip(type)
  }
  return found
}

function field(octets: Uint8Array, wanted: number): Uint8Array {
  const [value] = fields(octets, wanted)
  if (value === undefined) throw new Error(`SPIRE's answer has no field ${wanted}`)
  return value
}

/** Of a message X509SVID: its certificates as PEM. */
const chainOf = (svid: Uint8Array): string => fields(svid, 1).map(pemOf).join('\n')
