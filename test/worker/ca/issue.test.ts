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
import { CONFIGURABLE_MODES, type ProvenMode } from '../../../src/protocol/modes.ts'
import { epochMilliseconds, epochSeconds } from '../../../src/protocol/time.ts'
import { uuidv7 } from '../../../src/protocol/uuid.ts'
import { type Authority, loadAuthority } from '../../../src/worker/ca/authority.ts'
import { readCertificate } from '../../../src/worker/ca/certificate.ts'
import { inspectIssued } from '../../../src/worker/ca/inspect.ts'
import { issueCertificate } from '../../../src/worker/ca/issue.ts'
import { keyIdentifierOf } from '../../../src/worker/ca/key-identifier.ts'
import { verifyPresented } from '../../../src/worker/ca/presented.ts'
import { formatOrganizationalUnit, type Grant, newSerial, serialBytes } from '../../../src/worker/ca/profile.ts'
import { buildLeaf, encodeValidity } from '../../../src/worker/ca/template.ts'
import { bytesOf, type CaOptions, forgeCa, generateP256, spkiOf } from '../../fakes/ca-forge.ts'

const NOW = Date.parse('2026-03-01T12:00:00Z') / 1000
const spki = await spkiOf(await generateP256())

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
  tenant: 'acme',
  organizationalUnit: 'gke-oidc:prod-gke',
  spiffeId: 'spiffe://rootpilot/tenant/acme/runner',
  notBefore: epochSeconds(NOW - 60),
  notAfter: epochSeconds(NOW + 900),
  ...change,
})

describe('a leaf, read by the library', async () => {
  const grant = grantOf()
  const { der, pem } = await issueCertificate(authority, grant)
  const leaf = new X509Certificate(pem)

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
})

describe('a filled template', () => {
  const profiles = Array.from({ length: 100 }, (_, i) => {
    const mode = [...CONFIGURABLE_MODES, 'provisioned' as const][i % 7] as ProvenMode
    const source =
      mode === 'aws-sts' ? `${i}`.padStart(12, '1') : mode.includes('oidc') || mode === 'kubernetes' ? `c-${i}` : ''
    const tenant = `t${'x'.repeat(i % 62)}`
    const lifetime = i % 3 === 0 ? 90 * 86_400 : 900
    return grantOf({
      tenant,
      spiffeId: `spiffe://${i % 2 === 0 ? 'rootpilot' : 'other.example'}/tenant/${tenant}/runner`,
      organizationalUnit: formatOrganizationalUnit({ mode, source }),
      notAfter: epochSeconds(NOW + lifetime),
    })
  })

  test('equals what the library builds in full, octet by octet, for 100 profiles', async () => {
    const one = await authorityOf()
    for (const grant of profiles) {
      // Twice: from a new template and from the kept one.
      for (const round of [0, 1]) {
        const { der } = await issueCertificate(one, grant)
        const point = grant.spki.subarray(26)
        const built = await buildLeaf(one, grant, {
          serial: serialBytes(grant.serial) ?? new Uint8Array(),
          validity: encodeValidity(grant.notBefore, grant.notAfter),
          enrollmentId: new TextEncoder().encode(grant.enrollmentId),
          point,
          keyIdentifier: await keyIdentifierOf(point),
        })
        expect(readCertificate(der)?.tbs, `${grant.tenant} ${round}`).toEqual(built)
      }
    }
    expect(one.templates.size).toBe(100)
  })

  test('the number of kept templates is bounded', async () => {
    const one = await authorityOf()
    for (let i = 0; i < 510; i++)
      one.templates.set(`${i}`, {
        tbs: new Uint8Array(),
        slots: { serial: 0, validity: 0, enrollmentId: 0, point: 0, keyIdentifier: 0 },
      })
    await issueCertificate(one, grantOf())
    expect(one.templates.size).toBe(510)
    expect(one.templates.has('0')).toBe(false)
  })

  test.each<[string, JsonName | string]>([
    ['no attribute', []],
    ['characters of Unicode', [{ CN: ['Ärger & Söhne, "CA" \u{1f600}'] }]],
    ['several values in one RDN', [{ O: ['a'], OU: ['b'] }, { CN: ['c'] }]],
    ['an unknown attribute', [{ '1.2.3.4': ['x'] }, { CN: ['c'] }]],
    ['domain components', 'DC=example, DC=org, CN=Issuing'],
    ['spaces at both ends', [{ CN: ['  x  '] }]],
  ])('whatever the issuer is called: %s', async (_, name) => {
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
    ['an organizational unit of no mode', { organizationalUnit: 'root:' }],
    ['an organizational unit of a renewal', { organizationalUnit: 'mtls-renewal:' }],
    ['a source that its mode has not', { organizationalUnit: 'bootstrap-token:x' }],
    ['times in the wrong order', { notAfter: epochSeconds(NOW - 60) }],
    ['times with a fraction', { notAfter: epochSeconds(NOW + 0.5) }],
    ['a key of another kind', { spki: new Uint8Array(91) }],
    ['a compressed key', { spki: spki.slice(0, 59) }],
    ['an end past the issuer’s', { notAfter: epochSeconds(Date.parse('2080-01-01T00:00:01Z') / 1000) }],
  ])('%s', async (_, change) => {
    await expect(issueCertificate(authority, grantOf(change))).rejects.toThrow()
  })
})

describe('the second reader', async () => {
  const grant = grantOf()
  const { der } = await issueCertificate(authority, grant)
  const keyIdentifier = await keyIdentifierOf(spki.slice(26))
  const other = await spkiOf(await generateP256())
  const look = (change: Partial<Grant> = {}, of = der, by = authority) =>
    inspectIssued(by, { ...grant, ...change }, keyIdentifier, of)

  test('finds nothing in what was granted', async () => {
    expect(await look()).toBeNull()
  })

  test.each<[string, Partial<Grant>]>([
    ['the serial', { serial: newSerial() }],
    ['the times', { notBefore: epochSeconds(NOW) }],
    ['the times', { notAfter: epochSeconds(NOW + 901) }],
    ['the tenant', { tenant: 'globex' }],
    ['the organizational unit', { organizationalUnit: 'gke-oidc:other' }],
    ['the enrollment', { enrollmentId: uuidv7(epochMilliseconds(NOW * 1000)) }],
    ['the SPIFFE ID', { spiffeId: 'spiffe://other/tenant/acme/runner' }],
    ['the public key', { spki: other }],
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
    expect(await look({}, der, { ...twin, issuerKeyId: authority.issuerKeyId })).toBe('the signature')
    expect(await inspectIssued(authority, grant, new Uint8Array(20), der)).toBe('the subject key identifier')
  })

  test('finds what is not a leaf of ours at all', async () => {
    expect(await look({}, Uint8Array.from([...der, 0]))).toBe('it cannot be read')
    expect(await look({}, authority.issuing.certificate.der)).toBe('the profile of a leaf')
  })
})
