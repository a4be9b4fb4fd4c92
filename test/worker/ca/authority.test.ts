// Tests which CA secrets load, what each fault says, and which validity a certificate gets.
import 'reflect-metadata'
import {
  BasicConstraintsExtension,
  ExtendedKeyUsage,
  ExtendedKeyUsageExtension,
  Extension,
  KeyUsageFlags,
  KeyUsagesExtension,
} from '@peculiar/x509'
import { describe, expect, test } from 'vitest'
import { createCa } from '../../../src/cli/ca/create.ts'
import { parsePem } from '../../../src/protocol/pem.ts'
import { epochSeconds, hours, minutes } from '../../../src/protocol/time.ts'
import { type AuthoritySecrets, loadAuthority } from '../../../src/worker/ca/authority.ts'
import { bundleHash, chainPem, spiffeBundle, trustBundlePem } from '../../../src/worker/ca/bundle.ts'
import { readCertificate } from '../../../src/worker/ca/certificate.ts'
import { validityOf } from '../../../src/worker/ca/profile.ts'
import encodings from '../../cases/x509/index.json'
import { forgeCa, forgeLeaf, pem } from '../../fakes/ca-forge.ts'

const NOW = epochSeconds(Date.parse('2026-03-01T12:00:00Z') / 1000)
const files = import.meta.glob<string>('../../cases/x509/*.pem', { query: '?raw', import: 'default', eager: true })

const root = await forgeCa()
const issuing = await forgeCa({ issuer: root })
const SECRETS: AuthoritySecrets = { caKey: issuing.keyPem, caCert: issuing.pem + root.pem, allowDevelopment: false }

async function faultOf(change: Partial<AuthoritySecrets>): Promise<string> {
  const loaded = await loadAuthority({ ...SECRETS, ...change })
  expect(loaded.ok ? 'loaded' : loaded.error.reason).toBe('ca_not_configured')
  return (loaded.ok ? undefined : loaded.error.detail) ?? ''
}

async function load(change: Partial<AuthoritySecrets> = {}) {
  const loaded = await loadAuthority({ ...SECRETS, ...change })
  if (!loaded.ok) throw new Error(loaded.error.detail)
  return loaded.value
}

describe('a CA that loads', () => {
  test('its chain is what lies below the root, its bundle the roots', async () => {
    const authority = await load()
    expect(chainPem(authority)).toBe(issuing.pem)
    expect(trustBundlePem(authority)).toBe(root.pem)
  })

  test('the secrets may have CRLF, empty lines and spaces at their ends', async () => {
    const { caKey, caCert } = SECRETS
    await load({ caKey: `\n${caKey}\n `, caCert: `${issuing.pem}\n\n${root.pem}\n`, caPrevious: ' ', caTrust: '' })
    await load({ caKey: caKey?.replaceAll('\n', '\r\n'), caCert: caCert?.replaceAll('\n', '\r\n') })
  })

  test('the issuing certificate may be the root itself; then the chain is empty', async () => {
    const authority = await load({ caKey: root.keyPem, caCert: root.pem })
    expect(chainPem(authority)).toBe('')
    expect(trustBundlePem(authority)).toBe(root.pem)
  })

  test('P-384 at every level, and a second intermediate', async () => {
    const top = await forgeCa({ curve: 'P-384' })
    const middle = await forgeCa({ curve: 'P-384', issuer: top })
    const low = await forgeCa({ curve: 'P-384', issuer: middle })
    const authority = await load({ caKey: low.keyPem, caCert: low.pem + middle.pem + top.pem })
    expect(authority.signer.curve).toBe('P-384')
    expect(chainPem(authority)).toBe(low.pem + middle.pem)
  })

  test('its certificates may be limited to usages that leave the leaf both of its own', async () => {
    const both = new ExtendedKeyUsageExtension([ExtendedKeyUsage.serverAuth, ExtendedKeyUsage.clientAuth])
    const base = [new BasicConstraintsExtension(true, 0, true), new KeyUsagesExtension(KeyUsageFlags.keyCertSign, true)]
    const limited = await forgeCa({ issuer: root, extensions: [...base, both] })
    await load({ caKey: limited.keyPem, caCert: limited.pem + root.pem })
  })

  test('CA_TRUST adds roots to the bundle once, and verifies nothing', async () => {
    const next = await forgeCa()
    const authority = await load({ caTrust: next.pem + root.pem })
    expect(trustBundlePem(authority)).toBe(root.pem + next.pem)
    expect(authority.accepted).toHaveLength(1)
  })

  test('CA_PREVIOUS adds issuing certificates, and nothing to the bundle', async () => {
    const before = await forgeCa({ issuer: root })
    const authority = await load({ caPrevious: before.pem })
    expect(authority.accepted).toHaveLength(2)
    expect(trustBundlePem(authority)).toBe(root.pem)
  })
})

describe('a CA that does not load says which secret is wrong, and how', async () => {
  const leaf = await forgeLeaf(issuing)
  const other = await forgeCa()
  const rsa = await crypto.subtle.generateKey(
    { name: 'RSASSA-PKCS1-v1_5', modulusLength: 2048, publicExponent: Uint8Array.of(1, 0, 1), hash: 'SHA-256' },
    true,
    ['sign', 'verify'],
  )
  const pkcs8 = async (key: CryptoKey) => new Uint8Array((await crypto.subtle.exportKey('pkcs8', key)) as ArrayBuffer)
  const rsaPem = pem('PRIVATE KEY', await pkcs8((rsa as CryptoKeyPair).privateKey))
  const issuingKey = await pkcs8(issuing.keys.privateKey)
  const p384 = await forgeCa({ curve: 'P-384' })

  const signer = new KeyUsagesExtension(KeyUsageFlags.keyCertSign, true)
  const caTrue = new BasicConstraintsExtension(true, undefined, true)
  const withExtensions = (...extensions: Extension[]) => forgeCa({ issuer: root, extensions })
  const notCa = await withExtensions(new BasicConstraintsExtension(false, undefined, true), signer)
  const noConstraints = await withExtensions(signer)
  const noSign = await withExtensions(caTrue, new KeyUsagesExtension(KeyUsageFlags.digitalSignature, true))
  const odd = await withExtensions(caTrue, signer, new Extension('1.2.3.4', true, Uint8Array.of(5, 0)))
  const serverOnly = await withExtensions(caTrue, signer, new ExtendedKeyUsageExtension([ExtendedKeyUsage.serverAuth]))
  const narrow = await forgeCa({ extensions: [new BasicConstraintsExtension(true, 0, true), signer] })
  const belowNarrow = await forgeCa({ issuer: narrow })
  const twin = await forgeCa({ name: root.name.toString(), keyId: root.keyId })
  const belowTwin = await forgeCa({ issuer: twin })
  const development = await createCa({ development: true, now: NOW })

  test.each<[string, Partial<AuthoritySecrets>, string]>([
    ['no key', { caKey: undefined }, 'CA_KEY is missing'],
    ['an empty key', { caKey: ' \n' }, 'CA_KEY is missing'],
    ['no certificate', { caCert: undefined }, 'CA_CERT is missing'],
    ['an empty certificate', { caCert: '' }, 'CA_CERT is missing'],
    ['a key that is no PEM', { caKey: 'hello' }, 'CA_KEY is not a PEM private key'],
    [
      'a key with \\n for line ends',
      { caKey: issuing.keyPem.replaceAll('\n', '\\n') },
      'CA_KEY is not a PEM private key',
    ],
    ['two keys', { caKey: issuing.keyPem + issuing.keyPem }, 'more than one PEM block'],
    ['a key in SEC 1', { caKey: pem('EC PRIVATE KEY', new Uint8Array(9)) }, 'CA_KEY is in SEC 1 form'],
    ['an encrypted key', { caKey: pem('ENCRYPTED PRIVATE KEY', new Uint8Array(9)) }, 'CA_KEY is encrypted'],
    ['an RSA key', { caKey: rsaPem }, 'CA_KEY is not an EC key on P-256 or P-384'],
    ['a damaged key', { caKey: pem('PRIVATE KEY', issuingKey.fill(0xff, 40, 60)) }, 'CA_KEY is'],
    ['a certificate for a key', { caKey: issuing.pem }, 'CA_KEY is not a PEM block PRIVATE KEY'],
    ['the key of another CA', { caKey: other.keyPem }, 'CA_KEY and CA_CERT are not a pair'],
    ['a key of another curve', { caKey: p384.keyPem }, 'CA_KEY and CA_CERT are not a pair'],
    ['the root key', { caKey: root.keyPem }, 'CA_KEY and CA_CERT are not a pair'],
    ['a key among the certificates', { caCert: issuing.pem + issuing.keyPem }, 'not a CERTIFICATE'],
    ['root first', { caCert: root.pem + issuing.pem }, 'CA_CERT is no chain'],
    ['no root', { caCert: issuing.pem }, 'CA_CERT does not end in a self-signed root'],
    ['another root', { caCert: issuing.pem + other.pem }, 'CA_CERT is no chain'],
    ['a root of the same name', { caKey: belowTwin.keyPem, caCert: belowTwin.pem + root.pem }, 'CA_CERT is no chain'],
    ['a leaf', { caCert: pem('CERTIFICATE', leaf.der) + issuing.pem + root.pem }, 'is not a CA certificate'],
    ['CA:FALSE', { caKey: notCa.keyPem, caCert: notCa.pem + root.pem }, 'is not a CA certificate'],
    [
      'no constraints',
      { caKey: noConstraints.keyPem, caCert: noConstraints.pem + root.pem },
      'is not a CA certificate',
    ],
    ['no keyCertSign', { caKey: noSign.keyPem, caCert: noSign.pem + root.pem }, 'may not sign certificates'],
    ['an unknown critical extension', { caKey: odd.keyPem, caCert: odd.pem + root.pem }, 'critical extension'],
    [
      'a CA for servers alone',
      { caKey: serverOnly.keyPem, caCert: serverOnly.pem + root.pem },
      'clientAuth and serverAuth',
    ],
    ['a root that allows nothing below', { caKey: belowNarrow.keyPem, caCert: belowNarrow.pem + narrow.pem }, 'fewer'],
    ['no DER', { caCert: pem('CERTIFICATE', new Uint8Array(99)) }, 'certificate 1 of CA_CERT is not an X.509 v3'],
    ['eleven certificates', { caCert: issuing.pem.repeat(11) }, 'over 10 PEM blocks'],
    ['a development CA', { caKey: development.issuingKey, caCert: development.issuing }, 'is a development CA'],
    ['a development CA before', { caPrevious: development.issuing }, 'is a development CA'],
    ['a development root', { caTrust: development.root }, 'is a development CA'],
    ['a leaf in CA_PREVIOUS', { caPrevious: pem('CERTIFICATE', leaf.der) }, 'certificate 1 of CA_PREVIOUS is not a CA'],
    ['an issuing certificate in CA_TRUST', { caTrust: issuing.pem }, 'CA_TRUST holds a certificate that is no root'],
    ['no PEM in CA_TRUST', { caTrust: 'x' }, 'CA_TRUST is not a list of PEM certificates'],
  ])('%s', async (_, change, expected) => {
    const fault = await faultOf(change)
    expect(fault).toContain(expected)
    expect(fault).not.toMatch(/[A-Za-z0-9+/]{25}/)
  })

  test('text around the blocks and EC PARAMETERS are ignored', async () => {
    const parameters = pem('EC PARAMETERS', Uint8Array.of(0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07))
    const caCert = `Certificate:\n    Data:\n${issuing.pem}\n# the root\n${root.pem}the end\n`
    expect((await loadAuthority({ ...SECRETS, caCert, caKey: parameters + issuing.keyPem })).ok).toBe(true)
  })

  test('the local edge takes a development CA', async () => {
    await load({ caKey: development.issuingKey, caCert: development.issuing, allowDevelopment: true })
  })
})

describe('the times of a certificate', () => {
  test('from a minute ago to a lifetime from now', async () => {
    const validity = validityOf(await load(), NOW, minutes(15))
    expect(validity).toEqual({ ok: true, value: { notBefore: NOW - 60, notAfter: NOW + 900 } })
  })

  test('an issuer or root with less than a lifetime left is not configured, one second more is', async () => {
    for (const ends of ['issuing', 'root']) {
      const soon = new Date((NOW + 900) * 1000)
      const above = await forgeCa(ends === 'root' ? { notAfter: soon } : {})
      const below = await forgeCa({ issuer: above, ...(ends === 'issuing' ? { notAfter: soon } : {}) })
      const authority = await load({ caKey: below.keyPem, caCert: below.pem + above.pem })
      expect(validityOf(authority, NOW, minutes(15)).ok).toBe(true)
      const late = validityOf(authority, epochSeconds(NOW + 1), minutes(15))
      expect(late.ok || late.error).toMatchObject({ reason: 'ca_not_configured' })
      expect(late.ok || late.error.detail).toContain('CA_CERT ends 2026-03-01T12:15:00Z')
    }
  })

  test('a CA of tomorrow issues nothing today', async () => {
    const tomorrow = await forgeCa({ notBefore: new Date((NOW + 1) * 1000) })
    const authority = await load({ caKey: tomorrow.keyPem, caCert: tomorrow.pem })
    expect(validityOf(authority, NOW, minutes(15)).ok).toBe(false)
    expect(validityOf(authority, epochSeconds(NOW + 1), minutes(15)).ok).toBe(true)
  })

  test('a root that ends in 2055 ends then, and not in 1955', async () => {
    const far = await forgeCa({ notAfter: new Date('2055-06-01T00:00:00Z') })
    const authority = await load({ caKey: far.keyPem, caCert: far.pem })
    expect(authority.validity.notAfter).toBe(Date.parse('2055-06-01T00:00:00Z') / 1000)
    expect(validityOf(authority, NOW, hours(24)).ok).toBe(true)
  })
})

test.each(encodings)('$file is readable: $readable ($why)', ({ file, readable }) => {
  const blocks = parsePem(files[`../../cases/x509/${file}`] ?? '', 1)
  const der = blocks.ok ? blocks.value[0]?.bytes : undefined
  expect(der && readCertificate(der) !== null).toBe(readable)
})

describe('the SPIFFE bundle', () => {
  test('has one key for each root, with its certificate', async () => {
    const next = await forgeCa({ curve: 'P-384' })
    const bundle = spiffeBundle(await load({ caTrust: next.pem }), 7)
    const base64 = (der: Uint8Array) => btoa(String.fromCharCode(...der))
    for (const [i, { der, keys }] of [root, next].entries()) {
      const { kty, crv, x, y } = (await crypto.subtle.exportKey('jwk', keys.publicKey)) as JsonWebKey
      expect(bundle.keys[i]).toEqual({ use: 'x509-svid', kty, crv, x, y, x5c: [base64(der)] })
    }
    expect(bundle.spiffe_sequence).toBe(7)
    expect(bundle.spiffe_refresh_hint).toBeGreaterThan(0)
  })

  test('is the same set of roots in any order', async () => {
    const next = await forgeCa()
    const below = await forgeCa({ issuer: next })
    const before = await load({ caTrust: next.pem })
    const activated = await load({ caKey: below.keyPem, caCert: below.pem + next.pem, caTrust: root.pem })
    expect(await bundleHash(activated)).toBe(await bundleHash(before))
    expect(await bundleHash(await load())).not.toBe(await bundleHash(before))
  })
})
