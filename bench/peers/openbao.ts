// OpenBao: a login by JWT for a batch token, and a CSR signed with it by the PKI engine, over one connection.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { exportSPKI, importJWK } from 'jose'
import { systemClock } from '../../src/protocol/time.ts'
import { freePort } from '../../test/end-to-end/processes.ts'
import { makeIssuer, makeIssuerKey } from '../../test/fakes/issuer.ts'
import { make } from '../kinds/enrollments.ts'
import { connect, fresh, post } from './http.ts'
import { makeKeyAndCsr } from './pki.ts'
import type { Place, Product, Work } from './product.ts'
import { startProgram } from './program.ts'

const AUDIENCE = 'compass-runner'

const configOf = (folder: string, port: number, clusterPort: number): string => `disable_mlock = true
api_addr = "http://127.0.0.1:${port}"
cluster_addr = "http://127.0.0.1:${clusterPort}"
log_level = "error"
storage "raft" {
  path = "${folder}"
  node_id = "bench"
}
listener "tcp" {
  address = "127.0.0.1:${port}"
  cluster_address = "127.0.0.1:${clusterPort}"
  tls_disable = true
}
`

export async function startOpenBao({ program, folder }: Place): Promise<Product> {
  const port = await freePort()
  const url = `http://127.0.0.1:${port}`
  writeFileSync(join(folder, 'server.hcl'), configOf(folder, port, await freePort()))
  const health = () => fetch(`${url}/v1/sys/seal-status`)
  const { pid, stop } = await startProgram(program, ['server', '-config', 'server.hcl'], folder, health)
  try {
    const issuerKey = await makeIssuerKey('bench', 'RS256')
    const issuer = await makeIssuer('https://issuer.test', issuerKey)
    const publicKey = await importJWK(issuerKey.publicJwk, 'RS256', { extractable: true })
    if (publicKey instanceof Uint8Array) throw new Error('the key of the issuer is not a public one')
    const roots = await setUp(url, issuer.issuer, await exportSPKI(publicKey))

    const prepare = (count: number): Promise<Work[]> =>
      make(count, async (i) => {
        const jwt = await issuer.token(Math.floor(systemClock() / 1000), { claims: { aud: [AUDIENCE] } })
        const { csr } = await makeKeyAndCsr(`runner-${i}`)
        const login = JSON.stringify({ role: 'runner', jwt })
        const sign = JSON.stringify({ csr, common_name: `runner-${i}` })
        return () =>
          fresh(url, undefined, async (client) => {
            const { auth } = JSON.parse(await post(client, '/v1/auth/jwt/login', login))
            const token = { 'x-vault-token': auth.client_token }
            const { data } = JSON.parse(await post(client, '/v1/pki/sign/runner', sign, token))
            return { certificate: data.certificate, csr }
          })
      })
    return {
      stop,
      ways: [
        {
          pair: 'kubernetes token',
          name: 'OpenBao login and sign',
          proven: 'RS256 token',
          stored: 'certificate (raft)',
          servers: [pid],
          roots,
          prepare,
        },
      ],
    }
  } catch (error) {
    await stop()
    throw error
  }
}

/** Gives the root. */
async function setUp(url: string, issuer: string, publicKey: string): Promise<string> {
  const client = connect(url)
  let headers = {}
  const put = async (path: string, body: object) => {
    const text = await post(client, `/v1/${path}`, JSON.stringify(body), headers)
    return text === '' ? {} : JSON.parse(text)
  }
  try {
    const { keys, root_token } = await put('sys/init', { secret_shares: 1, secret_threshold: 1 })
    await put('sys/unseal', { key: keys[0] })
    headers = { 'x-vault-token': root_token }
    await untilActive(url)
    await put('sys/mounts/pki', { type: 'pki' })
    const { data } = await put('pki/root/generate/internal', { common_name: 'root', key_type: 'ec', key_bits: 256 })
    await put('pki/roles/runner', {
      ...{ key_type: 'ec', key_bits: 256, ttl: '15m', max_ttl: '15m' },
      ...{ allow_any_name: true, enforce_hostnames: false, no_store: false, generate_lease: false },
    })
    const policy = 'path "pki/sign/runner" { capabilities = ["create", "update"] }'
    await put('sys/policies/acl/runner', { policy })
    await put('sys/auth/jwt', { type: 'jwt' })
    await put('auth/jwt/config', { jwt_validation_pubkeys: [publicKey], bound_issuer: issuer })
    await put('auth/jwt/role/runner', {
      ...{ role_type: 'jwt', user_claim: 'sub', bound_audiences: [AUDIENCE] },
      ...{ token_type: 'batch', token_policies: ['runner'], token_ttl: '15m' },
    })
    return data.certificate
  } finally {
    await client.destroy()
  }
}

/** After the unsealing it elects itself, which takes it some seconds. */
async function untilActive(url: string): Promise<void> {
  for (let tries = 0; tries < 300; tries++) {
    const { status } = await fetch(`${url}/v1/sys/health`)
    if (status === 200) return
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
  throw new Error('OpenBao is not active 30 s after it was unsealed')
}
