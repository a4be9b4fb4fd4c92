// Tests which client certificates are accepted for a connection and for a renewal.
import 'reflect-metadata'
import {
  BasicConstraintsExtension,
  ExtendedKeyUsageExtension,
  Extension,
  KeyUsageFlags,
  KeyUsagesExtension,
  SubjectAlternativeNameExtension,
} from '@peculiar/x509'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { sha256Hex } from '../../../src/protocol/bytes.ts'
import { epochSeconds } from '../../../src/protocol/time.ts'
import { loadAuthority } from '../../../src/worker/ca/authority.ts'
import { connectionRefusal, presentedDer, renewalRefusal, verifyPresented } from '../../../src/worker/ca/presented.ts'
import {
  forgeCa,
  forgeLeaf,
  generateP256,
  LEAF_SUBJECT,
  LEAF_URI,
  type LeafOptions,
  type Octets,
  pem,
  spkiOf,
} from '../../fakes/ca-forge.ts'

const root = await forgeCa()
const issuing = await forgeCa({ issuer: root, notAfter: new Date('2027-01-01T00:00:00Z') })
const previous = await forgeCa({ issuer: root })

async function authorityOf(caPrevious = previous.pem) {
  const caCert = issuing.pem + root.pem
  const loaded = await loadAuthority({ caKey: issuing.keyPem, caCert, caPrevious, allowDevelopment: false })
  if (!loaded.ok) throw new Error(loaded.error.detail)
  return loaded.value
}
const authority = await authorityOf()
const DOMAINS = ['rootpilot', 'whystack']

const verdictOf = async (der: Octets, of = authority): Promise<string> => {
  const presented = await verifyPresented(of, DOMAINS, der)
  return presented.ok ? 'accepted' : presented.error.reason
}

test('an accepted certificate says who holds it', async () => {
  const { der, keys } = await forgeLeaf(issuing)
  const presented = await verifyPresented(authority, DOMAINS, der)
  expect(presented.ok && presented.value).toMatchObject({
    leaf: {
      serial: '41000000000000000000000000000001',
      enrollmentId: '01a227d6-456c-7e63-afe4-79a0e771d070',
      tenant: 'acme',
      mode: 'provisioned',
      source: '',
      spiffeId: LEAF_URI,
      notBefore: Date.parse('2026-03-01T11:59:00Z') / 1000,
      notAfter: Date.parse('2026-03-01T12:15:00Z') / 1000,
      publicKeyHash: await sha256Hex(await spkiOf(keys)),
    },
    issuerNotAfter: Date.parse('2027-01-01T00:00:00Z') / 1000,
  })
})

describe('whose certificate it is', () => {
  test('one of CA_PREVIOUS is accepted until it is taken out', async () => {
    const { der } = await forgeLeaf(previous)
    expect(await verdictOf(der)).toBe('accepted')
    expect(await verdictOf(der, await authorityOf(''))).toBe('certificate_invalid')
  })

  test('none of another CA, whichever fields it copies from ours', async () => {
    const twin = await forgeCa({ name: issuing.name.toString(), keyId: issuing.keyId })
    expect(twin.name.toString()).toBe(issuing.name.toString())
    for (const issuer of [twin, await forgeCa(), root]) {
      expect(await verdictOf((await forgeLeaf(issuer)).der)).toBe('certificate_invalid')
    }
  })

  test('none that a runner signed with its own key, or that signed itself', async () => {
    const { keys } = await forgeLeaf(issuing)
    const runner = { ...issuing, keys, name: (await forgeCa({ name: LEAF_SUBJECT })).name }
    expect(await verdictOf((await forgeLeaf(runner)).der)).toBe('certificate_invalid')
    expect(await verdictOf((await forgeLeaf(runner, { keys })).der)).toBe('certificate_invalid')
  })

  test('none with a changed octet, none with octets after it', async () => {
    const { der } = await forgeLeaf(issuing)
    expect(await verdictOf(Uint8Array.from([...der, 0]))).toBe('certificate_invalid')
    await fc.assert(
      fc.asyncProperty(fc.nat(der.length - 1), fc.integer({ min: 1, max: 255 }), async (at, flip) => {
        const changed = der.slice()
        changed[at] = (changed[at] as number) ^ flip
        expect(await verdictOf(changed)).toBe('certificate_invalid')
      }),
      { numRuns: 400, verbose: true },
    )
  })

  test('whatever is presented, the answer is a refusal and never an exception', async () => {
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ maxLength: 400 }), async (bytes) => {
        expect(await verdictOf(Uint8Array.from(bytes))).toBe('certificate_invalid')
      }),
      { verbose: true },
    )
    expect(await verdictOf(new Uint8Array(100_000).fill(0x30))).toBe('certificate_invalid')
  })

  test('the CA’s own certificates are refused', async () => {
    for (const ca of [issuing, root, previous]) expect(await verdictOf(ca.der)).toBe('certificate_invalid')
  })
})

const uri = (value: string) => ({ type: 'url' as const, value })

describe('its required content', async () => {
  test.each<[string, string, LeafOptions]>([
    ['accepted', 'our profile', {}],
    ['accepted', 'a trust domain of alsoTrust', { uris: ['spiffe://whystack/tenant/acme/runner'] }],
    ['accepted', 'names in another order', { subject: [...LEAF_SUBJECT].reverse() }],
    [
      'accepted',
      'an AWS account',
      { subject: [{ O: ['acme'] }, { OU: ['aws-sts:123456789012'] }, LEAF_SUBJECT[2] ?? {}] },
    ],
    ['accepted', 'an unknown extension', { more: [new Extension('1.2.3.4', false, Uint8Array.of(5, 0))] }],
    [
      'certificate_invalid',
      'an unknown critical extension',
      { more: [new Extension('1.2.3.4', true, Uint8Array.of(5, 0))] },
    ],
    [
      'certificate_invalid',
      'an extension twice',
      { more: [new KeyUsagesExtension(KeyUsageFlags.digitalSignature, true)] },
    ],
    ['certificate_invalid', 'CA:TRUE', { basicConstraints: new BasicConstraintsExtension(true, undefined, true) }],
    ['certificate_invalid', 'no BasicConstraints', { basicConstraints: null }],
    ['certificate_invalid', 'no KeyUsage', { keyUsage: null }],
    [
      'certificate_invalid',
      'keyCertSign',
      { keyUsage: new KeyUsagesExtension(KeyUsageFlags.digitalSignature | KeyUsageFlags.keyCertSign, true) },
    ],
    [
      'certificate_invalid',
      'no digitalSignature',
      { keyUsage: new KeyUsagesExtension(KeyUsageFlags.keyEncipherment, true) },
    ],
    [
      'certificate_invalid',
      'serverAuth alone',
      { extendedKeyUsage: new ExtendedKeyUsageExtension(['1.3.6.1.5.5.7.3.1']) },
    ],
    ['certificate_invalid', 'any purpose', { extendedKeyUsage: new ExtendedKeyUsageExtension(['2.5.29.37.0']) }],
    ['certificate_invalid', 'no purpose', { extendedKeyUsage: null }],
    [
      'certificate_invalid',
      'an empty list of purposes',
      { extendedKeyUsage: new Extension('2.5.29.37', false, Uint8Array.of(0x30, 0)) },
    ],
    [
      'certificate_invalid',
      'a KeyUsage without bits',
      { keyUsage: new Extension('2.5.29.15', true, Uint8Array.of(3, 1, 0)) },
    ],
    ['certificate_invalid', 'no SAN', { subjectAltName: null }],
    [
      'certificate_invalid',
      'an empty SAN',
      { subjectAltName: new Extension('2.5.29.17', false, Uint8Array.of(0x30, 0)) },
    ],
    ['certificate_invalid', 'two URIs', { uris: [LEAF_URI, 'spiffe://rootpilot/tenant/globex/runner'] }],
    ['certificate_invalid', 'the same URI twice', { uris: [LEAF_URI, LEAF_URI] }],
    [
      'certificate_invalid',
      'a DNS name beside it',
      { subjectAltName: new SubjectAlternativeNameExtension([uri(LEAF_URI), { type: 'dns', value: 'a' }]) },
    ],
    [
      'certificate_invalid',
      'the URI as a DNS name',
      { subjectAltName: new SubjectAlternativeNameExtension([{ type: 'dns', value: LEAF_URI }]) },
    ],
    ['certificate_invalid', 'another trust domain', { uris: ['spiffe://td.example.test/tenant/acme/runner'] }],
    ['certificate_invalid', 'another tenant than its O', { uris: ['spiffe://rootpilot/tenant/globex/runner'] }],
    ['certificate_invalid', 'no O', { subject: LEAF_SUBJECT.slice(1) }],
    ['certificate_invalid', 'two O', { subject: [{ O: ['acme'] }, ...LEAF_SUBJECT] }],
    ['certificate_invalid', 'a country', { subject: [{ C: ['DE'] }, ...LEAF_SUBJECT] }],
    ['certificate_invalid', 'no subject', { subject: [] }],
    [
      'certificate_invalid',
      'an OU without a mode',
      { subject: [{ O: ['acme'] }, { OU: ['x'] }, LEAF_SUBJECT[2] ?? {}] },
    ],
    [
      'certificate_invalid',
      'an OU of renewal',
      { subject: [{ O: ['acme'] }, { OU: ['mtls-renewal:'] }, LEAF_SUBJECT[2] ?? {}] },
    ],
    [
      'certificate_invalid',
      'an OU with a foreign source',
      { subject: [{ O: ['acme'] }, { OU: ['provisioned:x'] }, LEAF_SUBJECT[2] ?? {}] },
    ],
    [
      'certificate_invalid',
      'a CN that is no enrollment',
      { subject: [{ O: ['acme'] }, { OU: ['provisioned:'] }, { CN: ['x'] }] },
    ],
    ['certificate_invalid', 'a P-384 key', { keys: (await forgeCa({ curve: 'P-384' })).keys }],
  ])('%s: %s', async (expected, _, options) => {
    expect(await verdictOf((await forgeLeaf(issuing, options)).der)).toBe(expected)
  })

  test.each([
    'SPIFFE://rootpilot/tenant/acme/runner',
    'spiffe://RootPilot/tenant/acme/runner',
    'spiffe://rootpilot/tenant/acme/runner/',
    'spiffe://rootpilot/tenant/%61cme/runner',
    'spiffe://rootpilot/x/../tenant/acme/runner',
    'spiffe://rootpilot//tenant/acme/runner',
    'spiffe://u@rootpilot/tenant/acme/runner',
    'spiffe://rootpilot:443/tenant/acme/runner',
    'spiffe://rootpilot/tenant/acme/runner?x',
    'spiffe://rootpilot/tenant/acme/runner#x',
    'spiffe://rootpilot/tenant/acme/runner\n',
    'spiffe://rootpilot/tenant/acme/runner\0',
    ' spiffe://rootpilot/tenant/acme/runner',
    'spiffe://rootpilot/tenant/Acme/runner',
    'spiffe:/rootpilot/tenant/acme/runner',
    'https://rootpilot/tenant/acme/runner',
    'spiffe://rootpilot',
    '',
  ])('no other way to write the SPIFFE ID: %j', async (value) => {
    const { der } = await forgeLeaf(issuing, { uris: [value] })
    expect(await verdictOf(der)).toBe('certificate_invalid')
  })
})

describe('when it may be used', () => {
  const at = (seconds: number) => epochSeconds(1_772_366_400 + seconds)
  const times = { leaf: { notBefore: at(-960), notAfter: at(0) }, issuerNotAfter: at(100_000) }

  test.each([
    [-1021, 'certificate_invalid', 'certificate_expired'],
    [-1020, null, null],
    [-960, null, null],
    [0, null, null],
    [1, null, 'certificate_expired'],
    [300, null, 'certificate_expired'],
    [359, null, 'certificate_expired'],
    [360, null, 'certificate_expired'],
    [361, 'renewal_window', 'certificate_expired'],
    [86_400, 'renewal_window', 'certificate_expired'],
  ])('%i s after its end: renewal %s, connection %s', (seconds, renewal, connection) => {
    expect(renewalRefusal(times, at(seconds))?.reason ?? null).toBe(renewal)
    expect(connectionRefusal(times, at(seconds))?.reason ?? null).toBe(connection)
  })

  test('grace is the leaf’s, never the issuer’s', () => {
    const ended = { ...times, issuerNotAfter: at(100) }
    expect(renewalRefusal(ended, at(100))).toBeNull()
    expect(renewalRefusal(ended, at(101))).toEqual({ reason: 'certificate_invalid' })
    expect(connectionRefusal({ ...times, issuerNotAfter: at(-10) }, at(-9))).toEqual({ reason: 'certificate_expired' })
  })
})

describe('the PEM of a presented certificate', () => {
  test('is its first block; a chain behind it is ignored', async () => {
    const { der } = await forgeLeaf(issuing)
    const leaf = pem('CERTIFICATE', der)
    expect(presentedDer(leaf)).toEqual(der)
    expect(presentedDer(leaf + issuing.pem + root.pem)).toEqual(der)
    expect(presentedDer(leaf.replaceAll('\n', '\r\n'))).toEqual(der)
    expect(presentedDer(issuing.pem + leaf)).toEqual(issuing.der)
  })

  test.each([
    ['nothing', ''],
    ['text', 'hello'],
    ['a key behind it', root.pem + root.keyPem],
    ['fifty certificates', root.pem.repeat(50)],
    ['text before it', `x\n${root.pem}`],
  ])('refused: %s', (_, text) => {
    expect(presentedDer(text)).toBeNull()
  })
})

test('only a signature by the certificate’s key verifies', async () => {
  const { der, keys } = await forgeLeaf(issuing)
  const presented = await verifyPresented(authority, DOMAINS, der)
  if (!presented.ok) throw new Error('not accepted')
  const nonce = Uint8Array.from(new TextEncoder().encode('A'.repeat(64)))
  const by = async ({ privateKey }: CryptoKeyPair, data = nonce) =>
    new Uint8Array(await crypto.subtle.sign({ name: 'ECDSA', hash: 'SHA-256' }, privateKey, data))
  const { hasSigned } = presented.value
  expect(await hasSigned(await by(keys), nonce)).toBe(true)
  expect(await hasSigned(await by(await generateP256()), nonce)).toBe(false)
  expect(await hasSigned(await by(keys, Uint8Array.from([...nonce, 0x0a])), nonce)).toBe(false)
  for (const length of [0, 63, 64, 65, 72]) expect(await hasSigned(new Uint8Array(length), nonce)).toBe(false)
})
