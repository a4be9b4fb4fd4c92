// step-ca: a one-time token of its JWK provisioner for a certificate, and rekey, which proves the certificate by mTLS.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { calculateJwkThumbprint, exportJWK, SignJWT } from 'jose'
import { freePort } from '../../test/end-to-end/processes.ts'
import { makeKeys } from '../../test/fakes/requester.ts'
import { make } from '../kinds/enrollments.ts'
import { IN_TURN } from '../kinds/renewals.ts'
import { connect, fresh, post } from './http.ts'
import { type KeyAndCsr, makeAuthority, makeKeyAndCsr } from './pki.ts'
import type { Issued, Place, Product, Work } from './product.ts'
import { startProgram } from './program.ts'

const PROVISIONER = 'bench'
const LIFETIME = '15m'

interface Request extends KeyAndCsr {
  readonly body: string
}

export async function startStepCa({ program, folder, connections }: Place): Promise<Product> {
  const root = await makeAuthority('step-ca root')
  const issuing = await makeAuthority('step-ca intermediate', root)
  const keys = await makeKeys()
  const jwk = await exportJWK(keys.publicKey)
  const kid = await calculateJwkThumbprint(jwk)
  const port = await freePort()
  const url = `https://127.0.0.1:${port}`
  const files = { 'root.pem': root.certificate, 'issuing.pem': issuing.certificate, 'issuing.key': issuing.key }
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text, { mode: 0o600 })
  const config = {
    root: join(folder, 'root.pem'),
    crt: join(folder, 'issuing.pem'),
    key: join(folder, 'issuing.key'),
    address: `127.0.0.1:${port}`,
    dnsNames: ['127.0.0.1'],
    // What `step ca init` sets up.
    db: { type: 'badgerv2', dataSource: join(folder, 'db') },
    authority: {
      provisioners: [
        {
          type: 'JWK',
          name: PROVISIONER,
          key: { ...jwk, kid, use: 'sig', alg: 'ES256' },
          claims: { minTLSCertDuration: '5m', defaultTLSCertDuration: LIFETIME, maxTLSCertDuration: '24h' },
        },
      ],
    },
  }
  writeFileSync(join(folder, 'ca.json'), JSON.stringify(config))
  const tls = { ca: root.certificate }
  const health = () => fresh(url, tls, (client) => client.request({ method: 'GET', path: '/health' }))
  const { pid, stop } = await startProgram(program, ['ca.json'], folder, health)

  let made = 0
  /** A CSR with a token of its own; the token's name must be the CSR's. */
  const request = async (): Promise<Request> => {
    const name = `runner-${made++}`
    const { key, csr } = await makeKeyAndCsr(name)
    const ott = await new SignJWT({ sans: [name], jti: crypto.randomUUID() })
      .setProtectedHeader({ alg: 'ES256', kid, typ: 'JWT' })
      .setSubject(name)
      .setIssuer(PROVISIONER)
      .setAudience(`${url}/1.0/sign`)
      .setIssuedAt()
      .setNotBefore('0s')
      .setExpirationTime('10m')
      .sign(keys.privateKey)
    return { key, csr, body: JSON.stringify({ csr, ott }) }
  }
  const requests = (count: number): Promise<Request[]> => make(count, request)

  const sign = async (count: number): Promise<Work[]> =>
    (await requests(count)).map(({ csr, body }) => async () => ({
      csr,
      certificate: chainOf(await fresh(url, tls, (client) => post(client, '/1.0/sign', body))),
    }))

  const kept = Array.from({ length: connections }, () => connect(url, tls))
  const signKept = async (count: number): Promise<Work[]> =>
    (await requests(count)).map(({ csr, body }, i) => async () => {
      const client = kept[i % connections] ?? connect(url, tls)
      return { csr, certificate: chainOf(await post(client, '/1.0/sign', body)) }
    })

  const runners: { key: string; certificate: string }[] = []
  let next = 0
  const rekey = async (count: number): Promise<Work[]> => {
    for (const { key, body } of await requests(IN_TURN - runners.length)) {
      const text = await fresh(url, tls, (client) => post(client, '/1.0/sign', body))
      runners.push({ key, certificate: chainOf(text) })
    }
    return make(count, async () => {
      const at = next++ % runners.length
      const { key, csr } = await makeKeyAndCsr(`runner-${at}`)
      const body = JSON.stringify({ csr })
      return async (): Promise<Issued> => {
        const runner = runners[at]
        const own = { ...tls, key: runner?.key ?? '', cert: runner?.certificate ?? '' }
        const certificate = chainOf(await fresh(url, own, (client) => post(client, '/1.0/rekey', body)))
        runners[at] = { key, certificate }
        return { certificate, csr }
      }
    })
  }

  const shared = { servers: [pid], roots: root.certificate }
  const token = {
    ...shared,
    pair: 'bootstrap token',
    proven: 'one-time JWK token',
    stored: 'token, certificate',
  } as const
  return {
    stop: async () => {
      for (const client of kept) await client.destroy()
      await stop()
    },
    ways: [
      {
        ...shared,
        pair: 'renewal',
        name: 'step-ca rekey',
        proven: 'certificate by mTLS',
        stored: 'certificate',
        prepare: rekey,
      },
      { ...token, name: 'step-ca sign', prepare: sign },
      { ...token, name: 'step-ca sign, kept TLS', prepare: signKept },
    ],
  }
}

const chainOf = (text: string): string => {
  const { crt, ca } = JSON.parse(text)
  return `${crt}${ca}`
}
