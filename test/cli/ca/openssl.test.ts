// Tests the CA commands against OpenSSL, which verifies what they make and makes what they must read.
import 'reflect-metadata'
import { spawnSync } from 'node:child_process'
import { X509Certificate } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  AuthorityKeyIdentifierExtension,
  BasicConstraintsExtension,
  ExtendedKeyUsageExtension,
  Extension,
  GeneralNames,
  KeyUsageFlags,
  KeyUsagesExtension,
  SubjectKeyIdentifierExtension,
} from '@peculiar/x509'
import { afterAll, describe, expect, test } from 'vitest'
import { createCa, createRunnerKey, createServerCertificate } from '../../../src/cli/ca/create.ts'
import { sha256Hex } from '../../../src/protocol/bytes.ts'
import { encodePem } from '../../../src/protocol/pem.ts'
import {
  epochSeconds,
  type Seconds,
  seconds,
  systemClock,
  toEpochMilliseconds,
  toEpochSeconds,
} from '../../../src/protocol/time.ts'
import { uuidv7 } from '../../../src/protocol/uuid.ts'
import { type Authority, loadAuthority } from '../../../src/worker/ca/authority.ts'
import { chainPem, spiffeBundle, trustBundlePem } from '../../../src/worker/ca/bundle.ts'
import { readCsr } from '../../../src/worker/ca/csr.ts'
import { issueCertificate } from '../../../src/worker/ca/issue.ts'
import { newSerial, validityOf } from '../../../src/worker/ca/profile.ts'
import { bytesOf, type CaOptions, forgeCa, forgeLeaf, type Issuer, pem } from '../../fakes/ca-forge.ts'

const installed = spawnSync('openssl', ['version']).status === 0
if (!installed) console.warn('openssl is not installed: what it would judge is skipped')

const dir = mkdtempSync(join(tmpdir(), 'muster-ca-'))
afterAll(() => rmSync(dir, { recursive: true }))
const path = (name: string) => join(dir, name)

function openssl(...args: string[]): string {
  const { status, stdout, stderr } = spawnSync('openssl', args, { encoding: 'utf8', cwd: dir })
  if (status !== 0) throw new Error(`openssl ${args[0]}: ${stdout}${stderr}`)
  return stdout + stderr
}

const now = () => toEpochSeconds(systemClock())

async function load(caKey: string, caCert: string): Promise<Authority> {
  const loaded = await loadAuthority({ caKey, caCert, allowDevelopment: false })
  if (!loaded.ok) throw new Error(loaded.error.detail)
  return loaded.value
}

async function issue(authority: Authority, at = now(), lifetime: Seconds = seconds(900)): Promise<string> {
  const validity = validityOf(authority, at, lifetime)
  if (!validity.ok) throw new Error(validity.error.detail)
  const { spki } = await createRunnerKey()
  const { der } = await issueCertificate(authority, {
    serial: newSerial(),
    enrollmentId: uuidv7(toEpochMilliseconds(at)),
    spki,
    publicKeyHash: await sha256Hex(spki),
    issuer: authority.issuerKeyId,
    tenant: 'acme',
    mode: 'aws-sts',
    source: '123456789012',
    spiffeId: 'spiffe://rootpilot/tenant/acme/runner',
    ...validity.value,
  })
  return encodePem('CERTIFICATE', der)
}

/** Verifies a leaf with nothing but what a runner is given. */
function verify(authority: Authority, leaf: string, at = now()): void {
  writeFileSync(path('leaf.pem'), leaf)
  writeFileSync(path('chain.pem'), chainPem(authority))
  writeFileSync(path('roots.pem'), trustBundlePem(authority))
  const chain = chainPem(authority) === '' ? [] : ['-untrusted', 'chain.pem']
  for (const purpose of ['sslclient', 'sslserver']) {
    const options = ['-x509_strict', '-check_ss_sig', '-purpose', purpose, '-attime', `${at}`, '-CAfile', 'roots.pem']
    expect(openssl('verify', ...options, ...chain, 'leaf.pem')).toContain('leaf.pem: OK')
  }
}

describe.skipIf(!installed)('OpenSSL verifies', () => {
  test('leaves of a CA that muster made', async () => {
    const ca = await createCa({ development: false, now: now() })
    const authority = await load(ca.issuingKey, ca.issuing)
    verify(authority, await issue(authority))
    verify(authority, await issue(authority, now(), seconds(90 * 86_400)))
    const text = openssl('x509', '-in', 'leaf.pem', '-noout', '-text')
    expect(text).toContain('Subject: O = acme, OU = aws-sts:123456789012, CN = ')
    expect(text).toContain('URI:spiffe://rootpilot/tenant/acme/runner')
  })

  test('the server certificate of the local edge', async () => {
    const ca = await createCa({ development: true, now: now() })
    const server = await createServerCertificate({ key: ca.issuingKey, certificate: ca.issuing }, now())
    writeFileSync(path('server.pem'), server.certificate)
    writeFileSync(path('issuing.pem'), ca.issuing)
    writeFileSync(path('root.pem'), ca.root)
    const options = ['-x509_strict', '-purpose', 'sslserver', '-CAfile', 'root.pem', '-untrusted', 'issuing.pem']
    for (const name of [
      ['-verify_hostname', 'localhost'],
      ['-verify_ip', '127.0.0.1'],
      ['-verify_ip', '::1'],
    ]) {
      expect(openssl('verify', ...options, ...name, 'server.pem')).toContain('server.pem: OK')
    }
  })

  test.each([
    ['P-256', ['EC', '-pkeyopt', 'ec_paramgen_curve:P-256']],
    ['P-384', ['EC', '-pkeyopt', 'ec_paramgen_curve:P-384']],
    ['P-521', ['EC', '-pkeyopt', 'ec_paramgen_curve:P-521']],
    ['RSA', ['RSA', '-pkeyopt', 'rsa_keygen_bits:2048']],
  ])('leaves under CAs that OpenSSL made for 30 years, root %s', async (_, algorithm) => {
    for (const curve of ['P-256', 'P-384']) {
      openssl('genpkey', '-out', 'root.key', '-algorithm', ...algorithm)
      const usages = [
        '-addext',
        'basicConstraints=critical,CA:TRUE',
        '-addext',
        'keyUsage=critical,keyCertSign,cRLSign',
      ]
      openssl(
        'req',
        '-x509',
        '-key',
        'root.key',
        '-out',
        'root.pem',
        '-subj',
        '/O=Ä & Söhne/CN=Root',
        '-utf8',
        '-days',
        '10950',
        '-extensions',
        'v3',
        '-config',
        config('[v3]\nsubjectKeyIdentifier=hash'),
        ...usages,
      )
      openssl('genpkey', '-out', 'issuing.key', '-algorithm', 'EC', '-pkeyopt', `ec_paramgen_curve:${curve}`)
      openssl('req', '-new', '-key', 'issuing.key', '-out', 'issuing.csr', '-subj', '/CN=Issuing', '-config', config())
      writeFileSync(
        path('ext'),
        'basicConstraints=critical,CA:TRUE,pathlen:0\nkeyUsage=critical,keyCertSign\nsubjectKeyIdentifier=hash\nauthorityKeyIdentifier=keyid\n',
      )
      openssl(
        'x509',
        '-req',
        '-in',
        'issuing.csr',
        '-CA',
        'root.pem',
        '-CAkey',
        'root.key',
        '-CAcreateserial',
        '-days',
        '10900',
        '-sha384',
        '-extfile',
        'ext',
        '-out',
        'issuing.pem',
      )
      const authority = await load(read('issuing.key'), read('issuing.pem') + read('root.pem'))
      verify(authority, await issue(authority))
      const { use, x5c, ...jwk } = spiffeBundle(authority, 1).keys[0] ?? { use: null, x5c: [''] }
      const root = new X509Certificate(read('root.pem'))
      expect(jwk).toEqual(root.publicKey.export({ format: 'jwk' }))
      expect([use, x5c]).toEqual(['x509-svid', [root.raw.toString('base64')]])
      // Either side of the end of UTCTime.
      for (const at of ['2049-12-31T23:50:00Z', '2050-01-01T00:10:00Z']) {
        const then = epochSeconds(Date.parse(at) / 1000)
        verify(authority, await issue(authority, then), then)
      }
    }
  })

  test.each([
    ['Ed25519', ['-algorithm', 'ED25519'], []],
    ['a compressed point', ['-algorithm', 'EC', '-pkeyopt', 'ec_paramgen_curve:P-256'], ['-conv_form', 'compressed']],
    [
      'explicit parameters',
      ['-algorithm', 'EC', '-pkeyopt', 'ec_paramgen_curve:P-256', '-pkeyopt', 'ec_param_enc:explicit'],
      [],
    ],
  ])('a root with a key of another kind is refused: %s', async (_, key, ec) => {
    openssl('genpkey', '-out', 'odd.key', ...key)
    if (ec.length > 0) openssl('ec', '-in', 'odd.key', '-out', 'odd.key', ...ec)
    openssl('req', '-x509', '-key', 'odd.key', '-out', 'odd.pem', '-subj', '/CN=Odd')
    const ca = await createCa({ development: false, now: now() })
    const secrets = { caKey: ca.issuingKey, caCert: ca.issuing, caTrust: read('odd.pem'), allowDevelopment: false }
    const loaded = await loadAuthority(secrets)
    expect(loaded.ok || loaded.error.detail).toBe('certificate 1 of CA_TRUST has a key of a kind that is not accepted')
  })
})

describe.skipIf(!installed)('a CA whose leaves OpenSSL refuses (-x509_strict) does not load', () => {
  const caTrue = (critical: boolean, pathLength?: number) => new BasicConstraintsExtension(true, pathLength, critical)
  const certSign = new KeyUsagesExtension(KeyUsageFlags.keyCertSign, true)
  const usual = [caTrue(true), certSign]
  const stranger = 'c'.repeat(40)
  /** NameConstraints that permit no SPIFFE ID: `permittedSubtrees` of the URI host `example.com`. */
  const nameConstraints = new Extension('2.5.29.30', false, bytesOf('3011a00f300d860b6578616d706c652e636f6d'))

  test.each<[string, CaOptions, string]>([
    ['basicConstraints that are not critical', { extensions: [caTrue(false), certSign] }, 'not critical'],
    ['no keyUsage', { extensions: [caTrue(true)] }, 'no keyUsage'],
    [
      'a keyUsage without keyCertSign',
      { extensions: [caTrue(true), new KeyUsagesExtension(KeyUsageFlags.cRLSign, true)] },
      'may not sign',
    ],
    ['no subject key identifier', { extensions: usual, subjectKeyId: null }, 'no subject key identifier'],
    [
      'a critical subject key identifier',
      {
        extensions: usual,
        subjectKeyId: new SubjectKeyIdentifierExtension('d'.repeat(40), true),
        keyId: 'd'.repeat(40),
      },
      'critical subject key identifier',
    ],
    [
      "another's authority key identifier",
      { extensions: usual, authorityKeyId: new AuthorityKeyIdentifierExtension(stranger) },
      'of another certificate',
    ],
    ['an empty subject', { extensions: usual, name: [] }, 'empty subject'],
    [
      'any usage in place of both',
      { extensions: [...usual, new ExtendedKeyUsageExtension(['2.5.29.37.0'])] },
      'clientAuth and serverAuth',
    ],
    ['name constraints that are not critical', { extensions: [...usual, nameConstraints] }, 'name constraints'],
  ])('%s, in the issuing certificate and in the root', async (_, odd, fault) => {
    const good = await forgeCa()
    const oddRoot = await forgeCa(odd)
    const chains = [
      [await forgeCa({ ...odd, issuer: good }), good],
      [await forgeCa({ issuer: oddRoot }), oddRoot],
    ] as const
    for (const [issuing, root] of chains) {
      expect(await isVerified(issuing, root)).toBe(false)
      const loaded = await loadAuthority(secretsOf(issuing, root))
      expect(loaded.ok || loaded.error.detail).toMatch(new RegExp(`^certificate [12] of CA_CERT .*${fault}`))
    }
  })

  test.each<[string, CaOptions]>([
    ['no authority key identifier', { authorityKeyId: null }],
    [
      'a critical authority key identifier',
      { authorityKeyId: new AuthorityKeyIdentifierExtension('e'.repeat(40), true) },
    ],
    [
      'the serial of another root in its authority key identifier',
      {
        authorityKeyId: new AuthorityKeyIdentifierExtension({
          name: new GeneralNames([{ type: 'dn', value: 'CN=Root' }]),
          serialNumber: '01',
        }),
      },
    ],
  ])('%s, in the issuing certificate', async (_, odd) => {
    const root = await forgeCa({ name: 'CN=Root', keyId: 'e'.repeat(40) })
    const issuing = await forgeCa({ ...odd, issuer: root })
    expect(await isVerified(issuing, root)).toBe(false)
    const loaded = await loadAuthority(secretsOf(issuing, root))
    expect(loaded.ok || loaded.error.detail).toMatch(/^certificate 1 of CA_CERT .*authority key identifier/)
  })

  test('an RSA key of 1024 bits, in the root', async () => {
    openssl('genpkey', '-out', 'root.key', '-algorithm', 'RSA', '-pkeyopt', 'rsa_keygen_bits:1024')
    const ofCa = 'basicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign\nsubjectKeyIdentifier=hash\n'
    const extensions = ['-extensions', 'v3', '-config', config(`[v3]\n${ofCa}`)]
    openssl('req', '-x509', '-key', 'root.key', '-out', 'root.pem', '-subj', '/CN=Root', ...extensions)
    openssl('genpkey', '-out', 'issuing.key', '-algorithm', 'EC', '-pkeyopt', 'ec_paramgen_curve:P-256')
    openssl('req', '-new', '-key', 'issuing.key', '-out', 'issuing.csr', '-subj', '/CN=Issuing', '-config', config())
    writeFileSync(path('ext'), `${ofCa}authorityKeyIdentifier=keyid\n`)
    openssl(
      ...['x509', '-req', '-in', 'issuing.csr', '-CA', 'root.pem', '-CAkey', 'root.key', '-CAcreateserial'],
      ...['-extfile', 'ext', '-out', 'issuing.pem'],
    )
    const verdict = spawnSync('openssl', ['verify', '-auth_level', '2', '-CAfile', 'root.pem', 'issuing.pem'], {
      cwd: dir,
    })
    expect(verdict.status).not.toBe(0)
    const caCert = read('issuing.pem') + read('root.pem')
    const loaded = await loadAuthority({ caKey: read('issuing.key'), caCert, allowDevelopment: false })
    expect(loaded.ok || loaded.error.detail).toMatch(/^certificate 2 of CA_CERT has an RSA key of less than 2048 bits/)
  })

  test('one that conforms is verified and loads, with or without what a root may leave out', async () => {
    for (const options of [{}, { authorityKeyId: null }]) {
      const root = await forgeCa(options)
      const issuing = await forgeCa({ issuer: root, extensions: [caTrue(true, 0), certSign] })
      expect(await isVerified(issuing, root)).toBe(true)
      expect((await loadAuthority(secretsOf(issuing, root))).ok).toBe(true)
    }
  })

  const secretsOf = (issuing: Issuer, root: Issuer) => ({
    caKey: issuing.keyPem,
    caCert: issuing.pem + root.pem,
    allowDevelopment: false,
  })

  async function isVerified(issuing: Issuer, root: Issuer): Promise<boolean> {
    const leaf = await forgeLeaf(issuing)
    writeFileSync(path('leaf.pem'), pem('CERTIFICATE', leaf.der))
    writeFileSync(path('chain.pem'), issuing.pem)
    writeFileSync(path('roots.pem'), root.pem)
    const at = String(Date.parse('2026-03-01T12:00:00Z') / 1000)
    const options = [
      '-x509_strict',
      '-purpose',
      'sslclient',
      '-attime',
      at,
      '-CAfile',
      'roots.pem',
      '-untrusted',
      'chain.pem',
    ]
    return spawnSync('openssl', ['verify', ...options, 'leaf.pem'], { cwd: dir }).status === 0
  }
})

const read = (name: string) => readFileSync(path(name), 'utf8')

function config(text = ''): string {
  writeFileSync(path('config'), `[req]\ndistinguished_name=dn\n[dn]\n[none]\n${text}\n`)
  return 'config'
}

describe.skipIf(!installed)('requests that OpenSSL made', () => {
  const NONCE = 'q3Zx_7mYk-Ew0rT2uVb9_aLpQ4sNc6Df8GhJ1iKoM2Uq3Zx_7mYk-Ew0rT2uVb9_'

  async function request(options: { args?: string[]; mask?: string; key?: string[]; ec?: string[] }) {
    const mask = options.mask === undefined ? '' : `string_mask=${options.mask}\n`
    const text = `[req]\nprompt=no\n${mask}distinguished_name=dn\nattributes=attributes\n[dn]\nCN=runner\n[attributes]\nchallengePassword=${NONCE}\n`
    writeFileSync(path('request.config'), text)
    openssl(
      'genpkey',
      '-out',
      'runner.key',
      '-algorithm',
      'EC',
      ...(options.key ?? ['-pkeyopt', 'ec_paramgen_curve:P-256']),
    )
    if (options.ec) openssl('ec', '-in', 'runner.key', '-out', 'runner.key', ...options.ec)
    openssl(
      'req',
      '-new',
      '-key',
      'runner.key',
      '-config',
      'request.config',
      '-out',
      'runner.csr',
      ...(options.args ?? []),
    )
    return readCsr(read('runner.csr'))
  }

  test.each<[string, Parameters<typeof request>[0]]>([
    ['as it makes them', {}],
    ['with strings of old', { mask: 'nombstr' }],
    ['with PrintableString and T61String', { mask: 'pkix' }],
    ['with a header of old', { args: ['-newhdr'] }],
    ['for CA:TRUE', { args: ['-addext', 'basicConstraints=critical,CA:TRUE', '-addext', 'keyUsage=keyCertSign'] }],
    ['for CA:FALSE', { args: ['-addext', 'basicConstraints=CA:FALSE'] }],
    ['for names', { args: ['-addext', 'subjectAltName=DNS:a.example,IP:10.0.0.1,email:a@b.example,URI:spiffe://x/y'] }],
    ['for usages', { args: ['-addext', 'extendedKeyUsage=codeSigning', '-addext', 'subjectKeyIdentifier=hash'] }],
  ])('are read: %s', async (_, options) => {
    const csr = await request(options)
    expect(csr.ok && csr.value.challenge).toBe(NONCE)
    openssl('pkey', '-in', 'runner.key', '-pubout', '-outform', 'DER', '-out', 'runner.pub')
    expect(csr.ok && Buffer.from(csr.value.spki)).toEqual(readFileSync(path('runner.pub')))
  })

  test.each<[string, Parameters<typeof request>[0]]>([
    ['a compressed point', { ec: ['-conv_form', 'compressed'] }],
    ['explicit parameters', { key: ['-pkeyopt', 'ec_paramgen_curve:P-256', '-pkeyopt', 'ec_param_enc:explicit'] }],
    ['P-384', { key: ['-pkeyopt', 'ec_paramgen_curve:P-384'] }],
    ['secp256k1', { key: ['-pkeyopt', 'ec_paramgen_curve:secp256k1'] }],
    ['SHA-384', { args: ['-sha384'] }],
    ['text before it', { args: ['-text'] }],
  ])('are refused: %s', async (_, options) => {
    const csr = await request(options)
    expect(csr.ok ? 'accepted' : csr.error.reason).toBe('csr_invalid')
  })
})
