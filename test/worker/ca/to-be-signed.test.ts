// Tests the to-be-signed certificate against the library: for one grant both build the same octets.
import 'reflect-metadata'
import {
  AuthorityKeyIdentifierExtension,
  BasicConstraintsExtension,
  ExtendedKeyUsageExtension,
  Extension,
  KeyUsageFlags,
  KeyUsagesExtension,
  Name,
  PublicKey,
  SubjectAlternativeNameExtension,
  SubjectKeyIdentifierExtension,
  X509CertificateGenerator,
} from '@peculiar/x509'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { hex, sha256Hex } from '../../../src/protocol/bytes.ts'
import { CONFIGURABLE_MODES, type ProvenMode } from '../../../src/protocol/modes.ts'
import { epochMilliseconds, epochSeconds } from '../../../src/protocol/time.ts'
import { uuidv7 } from '../../../src/protocol/uuid.ts'
import { type Authority, loadAuthority } from '../../../src/worker/ca/authority.ts'
import { readCertificate } from '../../../src/worker/ca/certificate.ts'
import { issueCertificate } from '../../../src/worker/ca/issue.ts'
import { type Grant, newSerial } from '../../../src/worker/ca/profile.ts'
import { bytesOf, forgeCa, generateP256, type Octets, spkiOf } from '../../fakes/ca-forge.ts'

async function authorityOf(curve: 'P-256' | 'P-384', keyId?: string): Promise<Authority> {
  const ca = await forgeCa({ curve, notAfter: new Date('2090-01-01T00:00:00Z'), ...(keyId ? { keyId } : {}) })
  const loaded = await loadAuthority({ caKey: ca.keyPem, caCert: ca.pem, allowDevelopment: false })
  if (!loaded.ok) throw new Error(loaded.error.detail)
  return loaded.value
}

/** What the library builds for a grant; its signature is no one's, and dropped. */
async function libraryBuilds(authority: Authority, grant: Grant): Promise<Octets> {
  const { certificate } = authority.issuing
  const point = grant.spki.slice(26)
  const keyIdentifier = (await sha256Hex(point)).slice(0, 40)
  const octets = authority.signer.curve === 'P-256' ? 64 : 96
  const leaf = await X509CertificateGenerator.create({
    serialNumber: grant.serial,
    issuer: new Name(certificate.subject),
    subject: [{ O: [grant.tenant] }, { OU: [`${grant.mode}:${grant.source}`] }, { CN: [grant.enrollmentId] }],
    notBefore: new Date(grant.notBefore * 1000),
    notAfter: new Date(grant.notAfter * 1000),
    publicKey: new PublicKey(grant.spki),
    signingAlgorithm: { name: 'ECDSA', hash: authority.signer.curve === 'P-256' ? 'SHA-256' : 'SHA-384' },
    signature: new Uint8Array(octets).fill(1),
    extensions: [
      new BasicConstraintsExtension(false, undefined, true),
      new KeyUsagesExtension(KeyUsageFlags.digitalSignature, true),
      new ExtendedKeyUsageExtension(['1.3.6.1.5.5.7.3.2', '1.3.6.1.5.5.7.3.1']),
      new SubjectKeyIdentifierExtension(keyIdentifier),
      new AuthorityKeyIdentifierExtension(hex(authority.issuing.keyIdentifier)),
      new SubjectAlternativeNameExtension([{ type: 'url', value: grant.spiffeId }]),
      // RFC 9608: 24 h from its issuance, a minute after notBefore.
      ...(grant.notAfter - grant.notBefore - 60 <= 86_400 ? [new Extension('2.5.29.56', false, bytesOf('0500'))] : []),
    ],
  })
  const tbs = readCertificate(new Uint8Array(leaf.rawData))?.tbs
  if (tbs === undefined) throw new Error('the library built something other than a certificate')
  return tbs
}

const keys = await Promise.all(Array.from({ length: 8 }, generateP256))
const spkis = await Promise.all(keys.map(spkiOf))
const hashes = await Promise.all(spkis.map(sha256Hex))

const LOWER = [...'abcdefghijklmnopqrstuvwxyz0123456789-']
const lower = (maxLength: number) => fc.string({ unit: fc.constantFrom(...LOWER), minLength: 1, maxLength })
const DIGITS = [...'0123456789']

const sourceOf = (mode: ProvenMode): fc.Arbitrary<string> => {
  if (mode === 'aws-sts') return fc.string({ unit: fc.constantFrom(...DIGITS), minLength: 12, maxLength: 12 })
  return mode.includes('oidc') || mode === 'kubernetes' ? lower(40) : fc.constant('')
}
const origin = fc
  .constantFrom<ProvenMode>(...CONFIGURABLE_MODES, 'provisioned')
  .chain((mode) => sourceOf(mode).map((source) => ({ mode, source })))

const START = Date.parse('2026-01-01T00:00:00Z') / 1000
const TURN = Date.parse('2050-01-01T00:00:00Z') / 1000
const times = fc
  .tuple(
    fc.oneof(fc.integer({ min: START, max: TURN * 1.4 }), fc.integer({ min: TURN - 2000, max: TURN + 2000 })),
    fc.oneof(fc.integer({ min: 1, max: 2000 }), fc.constantFrom(86_459, 86_460, 86_461, 90 * 86_400)),
  )
  .map(([notBefore, life]) => ({ notBefore: epochSeconds(notBefore), notAfter: epochSeconds(notBefore + life) }))

const grants: fc.Arbitrary<Grant> = fc
  .record({
    trustDomain: fc.oneof(lower(20), fc.constant('d'.repeat(255))),
    tenant: lower(63),
    origin,
    times,
    key: fc.nat(7),
    at: fc.integer({ min: START, max: TURN }),
  })
  .map(({ trustDomain, tenant, origin, times, key, at }) => ({
    serial: newSerial(),
    enrollmentId: uuidv7(epochMilliseconds(at * 1000)),
    spki: spkis[key] as Octets,
    publicKeyHash: hashes[key] as string,
    issuer: '',
    tenant,
    spiffeId: `spiffe://${trustDomain}/tenant/${tenant}/runner`,
    ...origin,
    ...times,
  }))

describe('what is signed', () => {
  test.each([
    ['a CA on P-256', 'P-256', undefined],
    ['a CA on P-384', 'P-384', undefined],
    ['a key identifier of one octet', 'P-256', 'ff'],
    ['a key identifier of 64 octets', 'P-256', 'ab'.repeat(64)],
  ] as const)(
    'is what the library builds, octet by octet: %s',
    async (_, curve, keyId) => {
      const authority = await authorityOf(curve, keyId)
      await fc.assert(
        fc.asyncProperty(grants, async (grant) => {
          const { der } = await issueCertificate(authority, grant)
          expect(readCertificate(der)?.tbs).toEqual(await libraryBuilds(authority, grant))
        }),
        { numRuns: 60 },
      )
    },
    60_000,
  )
})
