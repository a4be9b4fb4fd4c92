// Tests a runner's CSRs against the library and OpenSSL.
import 'reflect-metadata'
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { ChallengePasswordAttribute, Pkcs10CertificateRequest } from '@peculiar/x509'
import { expect, test } from 'vitest'
import { parseDer } from '../../../src/protocol/der.ts'
import { parsePem } from '../../../src/protocol/pem.ts'
import { newRequestKey, spkiOf } from '../../../src/runner/identity/keys.ts'
import { readCsr } from '../../../src/worker/ca/csr.ts'
import { bytesOf, challenge, element } from '../../fakes/ca-forge.ts'

const installed = spawnSync('openssl', ['version']).status === 0
if (!installed) console.warn('openssl is not installed: what it would judge is skipped')

test('the library reads the request: key, no names, one challengePassword, signed', async () => {
  for (let i = 0; i < 20; i++) {
    const { key, csr, nonce } = await newRequestKey()
    const request = new Pkcs10CertificateRequest(csr)
    expect(await request.verify()).toBe(true)
    expect(request.subject).toBe('')
    expect(request.extensions).toEqual([])
    expect(Buffer.from(request.publicKey.rawData)).toEqual(spkiOf(key))
    expect(request.attributes).toHaveLength(1)
    const password = request.getAttribute('1.2.840.113549.1.9.7')
    expect(password instanceof ChallengePasswordAttribute && password.password).toBe(nonce)
  }
})

test('what is signed is RFC 2986 octet by octet, the nonce a UTF8String', async () => {
  const { key, csr, nonce } = await newRequestKey()
  const blocks = parsePem(csr, 1)
  const request = parseDer((blocks.ok && blocks.value[0]?.bytes) || new Uint8Array())
  const info = element(0x30, bytesOf('020100'), element(0x30), spkiOf(key), element(0xa0, challenge(nonce)))
  expect(request?.children[0]?.bytes).toEqual(info)
  expect(request?.children[1]?.bytes).toEqual(bytesOf('300a06082a8648ce3d040302'))
})

test('the control plane reads the request', async () => {
  const { key, csr, nonce } = await newRequestKey()
  const read = await readCsr(csr)
  expect(read.ok && read.value.challenge).toBe(nonce)
  expect(read.ok && read.value.publicKeyHash).toBe(createHash('sha256').update(spkiOf(key)).digest('hex'))
})

test.skipIf(!installed)('OpenSSL verifies the request and reads the same of it', async () => {
  const { csr, nonce } = await newRequestKey()
  const args = ['req', '-verify', '-noout', '-text', '-nameopt', 'RFC2253']
  const { status, stdout, stderr } = spawnSync('openssl', args, { input: csr, encoding: 'utf8' })
  expect(status).toBe(0)
  expect(stdout + stderr).toMatch(/verify OK/)
  expect(stdout).toMatch(/Subject: *\n/)
  expect(stdout).toMatch(/NIST CURVE: P-256/)
  expect(stdout).toMatch(/Signature Algorithm: ecdsa-with-SHA256/)
  expect(stdout.replace(/\s/g, '')).toContain(`challengePassword:${nonce}`)
})
