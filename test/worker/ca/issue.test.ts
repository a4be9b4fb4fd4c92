// Tests issued certificates against the profile, and the inspection that follows each issuance.
import 'reflect-metadata'
import {
  AuthorityKeyIdentifierExtension,
  BasicConstraintsExtension,
  ExtendedKeyUsageExtension,
  type JsonName,
  KeyUsageFlags,
  KeyUsagesExtension,
  SubjectAlternativeNameExtension,
  SubjectKeyIdentifierExtension,
  X509Certificate,
} from '@peculiar/x509'
import { describe, expect, test } from 'vitest'
import { sha256Hex } from '../../../src/protocol/bytes.ts'
import { bitString, sequence } from '../../../src/protocol/der-writer.ts'
import type { ProvenMode } from '../../../src/protocol/modes.ts'
import { encodePem } from '../../../src/protocol/pem.ts'
import { epochMilliseconds, epochSeconds } from '../../../src/protocol/time.ts'
import { uuidv7 } from '../../../src/protocol/uuid.ts'
import { type Authority, loadAuthority } from '../../../src/worker/ca/authority.ts'
import { readCertificate } from '../../../src/worker/ca/certificate.ts'
import { inspectIssued } from '../../../src/worker/ca/inspect.ts'
import { issueCertificate } from '../../../src/worker/ca/issue.ts'
import { verifyPresented } from '../../../src/worker/ca/presented.ts'
import { type Grant, newSerial, serialBytes } from '../../../src/worker/ca/profile.ts'
import { buildToBeSigned } from '../../../src/worker/ca/to-be-signed.ts'
import { bytesOf, type CaOptions, forgeCa, generateP256, spkiOf } from '../../fakes/ca-forge.ts'

const NOW = Date.parse('2026-03-01T12:00:00Z') / 1000
const spki = await spkiOf(await generateP256())
const publicKeyHash = await sha256Hex(spki)

async function authorityOf(options: CaOptions = {}): Promise<Authority> {
  const ca = await forgeCa({ notAfter: new Date('2080-01-01T00:00:00Z'), ...options })
  const loaded = await loadAuthority({ caKey: ca.keyPem, caCert: ca.pem, allowDevelopment: false })
  if (!loaded.ok) throw new Error(loaded.error.detail)
  return loaded.value
}
const authority = await authorityOf()

const grantOf = (change: Partial<Grant> = {}): Grant => ({
  serial: newSerial(),
  enrollmentId: uuidv7(epochMilliseconds(NOW * 1000)),
  spki,
  publicKeyHash,
  issuer: authority.issuerKeyId,
  tenant: 'acme',
  mode: 'gke-oidc',
  source: 'prod-gke',
  spiffeId: 'spiffe://rootpilot/tenant/acme/runner',
  notBefore: epochSeconds(NOW - 60),
  notAfter: epochSeconds(NOW + 900),
  ...change,
})

describe('a leaf, read by the library', async () => {
  const grant = grantOf()
  const { der } = await issueCertificate(authority, grant)
  const leaf = new X509Certificate(encodePem('CERTIFICATE', der))

  test('has the profile to the letter', async () => {
    expect(new Uint8Array(leaf.rawData)).toEqual(der)
    expect(leaf.serialNumber).toBe(grant.serial)
    expect(leaf.subject).toBe(`O=acme, OU=gke-oidc:prod-gke, CN=${grant.enrollmentId}`)
    expect(leaf.notBefore.getTime() / 1000).toBe(NOW - 60)
    expect(leaf.notAfter.getTime() / 1000).toBe(NOW + 900)
    expect(new Uint8Array(leaf.publicKey.rawData)).toEqual(spki)
    expect(leaf.extensions.map(({ type, critical }) => [type, critical])).toEqual([
      ['2.5.29.19', true],
      ['2.5.29.15', true],
      ['2.5.29.37', false],
      ['2.5.29.14', false],
      ['2.5.29.35', false],
      ['2.5.29.17', false],
      ['2.5.29.56', false],
    ])
    expect(leaf.getExtension(BasicConstraintsExtension)).toMatchObject({ ca: false, pathLength: undefined })
    expect(leaf.getExtension(KeyUsagesExtension)?.usages).toBe(KeyUsageFlags.digitalSignature)
    expect(leaf.getExtension(ExtendedKeyUsageExtension)?.usages).toEqual(['1.3.6.1.5.5.7.3.2', '1.3.6.1.5.5.7.3.1'])
    expect(leaf.getExtension(SubjectAlternativeNameExtension)?.names.toJSON()).toEqual([
      { type: 'url', value: grant.spiffeId },
    ])
    const issuerId = new X509Certificate(authority.issuing.certificate.der).getExtension(
      SubjectKeyIdentifierExtension,
    )?.keyId
    expect(leaf.getExtension(AuthorityKeyIdentifierExtension)?.keyId).toBe(issuerId)
    expect(new Uint8Array(leaf.extensions[6]?.value ?? new ArrayBuffer())).toEqual(bytesOf('0500'))
  })

  test('verifies under the issuing certificate', async () => {
    const issuer = new X509Certificate(authority.issuing.certificate.der)
    expect(await leaf.verify({ publicKey: issuer, signatureOnly: true })).toBe(true)
  })

  test('is accepted when it is presented', async () => {
    const presented = await verifyPresented(authority, ['rootpilot'], der)
    expect(presented.ok && presented.value.leaf).toMatchObject({
      serial: grant.serial,
      mode: 'gke-oidc',
      source: 'prod-gke',
    })
  })
})

test('noRevAvail stands in certificates of up to 24 h, and in no longer ones', async () => {
  const says = async (lifetime: number) => {
    const { der } = await issueCertificate(authority, grantOf({ notAfter: epochSeconds(NOW + lifetime) }))
    return new X509Certificate(der).extensions.some(({ type }) => type === '2.5.29.56')
  }
  expect([await says(900), await says(86_400), await says(86_401), await says(90 * 86_400)]).toEqual([
    true,
    true,
    false,
    false,
  ])
})

test('times are UTCTime through 2049 and GeneralizedTime from 2050 on', async () => {
  const last = Date.parse('2049-12-31T23:59:59Z') / 1000
  for (const [notBefore, notAfter] of [
    [last - 900, last],
    [last - 900, last + 1],
    [last + 1, last + 901],
  ] as const) {
    const times = { notBefore: epochSeconds(notBefore), notAfter: epochSeconds(notAfter) }
    const { der } = await issueCertificate(authority, grantOf(times))
    const leaf = new X509Certificate(der)
    expect([leaf.notBefore.getTime() / 1000, leaf.notAfter.getTime() / 1000]).toEqual([notBefore, notAfter])
    const text = String.fromCharCode(...der)
    expect(text.includes('20500101000')).toBe(notAfter > last)
  }
})

test('a thousand serials are positive, minimal, 16 octets and all different', () => {
  const serials = Array.from({ length: 1000 }, newSerial)
  for (const serial of serials) expect(serial).toMatch(/^[4-7][0-9a-f]{31}$/)
  expect(new Set(serials).size).toBe(1000)
})

test('2000 certificates: each is inspected, and each signature is DER', async () => {
  for (let i = 0; i < 2000; i++) await issueCertificate(authority, grantOf())
}, 60_000)

describe('the issuer of a leaf', () => {
  test.each<[string, JsonName | string]>([
    ['characters of Unicode', [{ CN: ['Ärger & Söhne, "CA" \u{1f600}'] }]],
    ['several values in one RDN', [{ O: ['a'], OU: ['b'] }, { CN: ['c'] }]],
    ['an unknown attribute', [{ '1.2.3.4': ['x'] }, { CN: ['c'] }]],
    ['domain components', 'DC=example, DC=org, CN=Issuing'],
    ['spaces at both ends', [{ CN: ['  x  '] }]],
  ])('is the name of the issuing certificate, octet by octet: %s', async (_, name) => {
    for (const curve of ['P-256', 'P-384'] as const) {
      const one = await authorityOf({ name, curve })
      const { der } = await issueCertificate(one, grantOf())
      expect(readCertificate(der)?.issuer).toEqual(one.issuing.certificate.subject)
    }
  })
})

describe('what is no grant is never signed', () => {
  test.each<[string, Partial<Grant>]>([
    ['a serial with its high bit set', { serial: 'ff'.repeat(16) }],
    ['a serial that begins with zero', { serial: '00'.repeat(16) }],
    ['a short serial', { serial: '41' }],
    ['an upper-case serial', { serial: 'AB'.repeat(16) }],
    ['an enrollment that is no UUIDv7', { enrollmentId: 'x'.repeat(36) }],
    ['a tenant that is not the SPIFFE ID’s', { tenant: 'globex' }],
    ['a SPIFFE ID of another form', { spiffeId: 'spiffe://rootpilot/tenant/acme' }],
    ['an organizational unit of no mode', { mode: 'root' as ProvenMode, source: '' }],
    ['an organizational unit of a renewal', { mode: 'mtls-renewal' as ProvenMode, source: '' }],
    ['a source that its mode has not', { mode: 'bootstrap-token', source: 'x' }],
    ['times in the wrong order', { notAfter: epochSeconds(NOW - 60) }],
    ['times with a fraction', { notAfter: epochSeconds(NOW + 0.5) }],
    ['a key of another kind', { spki: new Uint8Array(91) }],
    ['a compressed key', { spki: spki.slice(0, 59) }],
    ['a key other than the one on record', { publicKeyHash: '0'.repeat(64) }],
    ['an end past the issuer’s', { notAfter: epochSeconds(Date.parse('2080-01-01T00:00:01Z') / 1000) }],
  ])('%s', async (_, change) => {
    await expect(issueCertificate(authority, grantOf(change))).rejects.toThrow()
  })
})

describe('the second reader', async () => {
  const grant = grantOf()
  const { der } = await issueCertificate(authority, grant)
  const other = await spkiOf(await generateP256())
  const look = (change: Partial<Grant> = {}, of = der, by = authority) => inspectIssued(by, { ...grant, ...change }, of)

  test('finds nothing in what was granted', async () => {
    expect(await look()).toBeNull()
  })

  test.each<[string, Partial<Grant>]>([
    ['the serial', { serial: newSerial() }],
    ['the times', { notBefore: epochSeconds(NOW) }],
    ['the times', { notAfter: epochSeconds(NOW + 901) }],
    ['the tenant', { tenant: 'globex' }],
    ['the organizational unit', { source: 'other' }],
    ['the organizational unit', { mode: 'eks-oidc' }],
    ['the enrollment', { enrollmentId: uuidv7(epochMilliseconds(NOW * 1000)) }],
    ['the SPIFFE ID', { spiffeId: 'spiffe://other/tenant/acme/runner' }],
    ['the public key', { spki: other }],
    ['the public key on record', { publicKeyHash: '0'.repeat(64) }],
  ])('finds a difference in %s', async (fault, change) => {
    expect(await look(change)).toBe(fault)
  })

  test('finds a wrong signature, another issuer, another key identifier', async () => {
    const changed = der.slice()
    changed[der.length - 1] = (changed[der.length - 1] as number) ^ 1
    expect(await look({}, changed)).toBe('the signature')
    expect(await look({}, der, await authorityOf())).toBe('the issuer')
    const twin = await authorityOf({
      name: authority.issuing.certificate.subjectAttributes.map(({ text }) => `CN=${text}`).join(),
    })
    expect(await look({}, der, twin)).toBe('the authority key identifier')
    const { keyIdentifier } = authority.issuing
    expect(await look({}, der, { ...twin, issuing: { ...twin.issuing, keyIdentifier } })).toBe('the signature')
    const algorithm = bytesOf('300a06082a8648ce3d040302')
    const serial = serialBytes(grant.serial) ?? new Uint8Array()
    const tbs = buildToBeSigned(authority.issuing, algorithm, grant, { serial, keyIdentifier: new Uint8Array(20) })
    const misnamed = sequence(tbs, algorithm, bitString(bytesOf('3006020101020101')))
    expect(await look({}, misnamed)).toBe('the subject key identifier')
  })

  test('finds what is not a leaf of ours at all', async () => {
    expect(await look({}, Uint8Array.from([...der, 0]))).toBe('it cannot be read')
    expect(await look({}, authority.issuing.certificate.der)).toBe('the profile of a leaf')
  })
})
