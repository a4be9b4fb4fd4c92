// Tests how an operator's PEM files are read: one opinion for each file, each fault with its place.

import { describe, expect, test } from 'vitest'
import { parseCertificateBundle, parseCertificateFile, parsePem, parsePemFile } from '../../src/protocol/pem.ts'

const block = (label: string, body = 'MAA='): string => `-----BEGIN ${label}-----\n${body}\n-----END ${label}-----\n`
const good = block('CERTIFICATE')
/** 0x30, 0x00 is all that a certificate is here. */
const isCertificate = (der: Uint8Array): boolean => der[0] === 0x30
const bundle = (text: string) => parseCertificateBundle(text, 10, isCertificate)

const AROUND = 'Certificate:\n    Data:\n        Version: 3 (0x2)\n\n'

test.each<[string, string]>([
  ['text before the block, as openssl x509 -text writes it', AROUND + good],
  ['text between the blocks', `${good}# the second\n${AROUND}${good}`],
  ['bag attributes', `Bag Attributes\n    localKeyID: 01\nsubject=CN = a\n${good}`],
  ['line ends of Windows', good.replaceAll('\n', '\r\n')],
  ['white space around the lines', good.replaceAll('\n', '  \n  ')],
  ['no line end at its end', good.trimEnd()],
  ['EC PARAMETERS', block('EC PARAMETERS') + good],
])('%s: every reader of files takes it, and the network none but line ends', (name, text) => {
  expect(parsePemFile(text, 10).ok).toBe(true)
  expect(parseCertificateFile(text, 10).ok).toBe(true)
  expect(bundle(text)).toMatchObject({ ok: true, value: { passedOver: [] } })
  const strict = parsePem(text, 10)
  const taken = strict.ok && strict.value.every(({ label }) => label === 'CERTIFICATE')
  expect(taken).toBe(name.includes('line end'))
})

describe('a block that cannot be read, among good ones', () => {
  test.each<[string, string, string]>([
    [
      'is no base64',
      block('CERTIFICATE', 'M*A='),
      'block 2 at line 4: the PEM block holds something other than base64',
    ],
    ['is no certificate', block('CERTIFICATE', 'BAA='), 'block 2 at line 4 cannot be read as a certificate'],
    ['is empty', block('CERTIFICATE', ''), 'block 2 at line 4: an empty line or a header within the PEM block'],
    ['has no END line', '-----BEGIN CERTIFICATE-----\nMAA=\n', 'block 2 at line 4: the PEM block has no END line'],
    [
      'has another END line',
      block('CERTIFICATE').replace('END CERTIFICATE', 'END X'),
      'block 2 at line 4: the END line does not match the BEGIN line',
    ],
    [
      'has a damaged BEGIN line',
      block('CERTIFICATE').replace('-----BEGIN', '----BEGIN'),
      'block 2 at line 6: an END line without a BEGIN line',
    ],
    [
      'has a blank line',
      block('CERTIFICATE', 'MA\n\nA='),
      'block 2 at line 4: an empty line or a header within the PEM block',
    ],
    ['is something else', block('X509 CRL'), 'block 2 at line 4 is not a CERTIFICATE'],
  ])('that %s is passed over in a list of whom to trust, and named', (_name, bad, place) => {
    const read = bundle(good + bad + good)
    expect(read.ok && read.value.certificates.length).toBe(2)
    expect(read.ok && read.value.passedOver).toEqual([place])
    // At its end, and alone.
    expect(bundle(good + bad)).toMatchObject({ ok: true, value: { passedOver: [place] } })
    expect(bundle(bad)).toMatchObject({ ok: false, error: expect.stringMatching(/^block 1 at line [13]/) })
  })

  test('is an error, with its place, in a file where each certificate has a use', () => {
    const text = good + block('CERTIFICATE', 'M*A=') + good
    const error = 'block 2 at line 4: the PEM block holds something other than base64'
    expect(parseCertificateFile(text, 10)).toEqual({ ok: false, error })
    expect(parsePemFile(text, 10)).toEqual({ ok: false, error })
  })
})

test.each(['PRIVATE KEY', 'EC PRIVATE KEY', 'ENCRYPTED PRIVATE KEY'])('a %s among certificates is refused', (label) => {
  for (const parse of [bundle, (text: string) => parseCertificateFile(text, 10)]) {
    expect(parse(good + block(label))).toEqual({ ok: false, error: 'a PEM block that is not a CERTIFICATE' })
  }
})

test.each<[string, string, string]>([
  ['nothing', '', 'no PEM block'],
  ['text alone', AROUND, 'no PEM block'],
  ['line ends that were escaped', good.replaceAll('\n', '\\n'), 'line ends are written as the two characters \\ and n'],
  ['more blocks than are taken', good.repeat(11), 'over 10 PEM blocks'],
])('%s is refused', (_name, text, error) => {
  expect(bundle(text)).toEqual({ ok: false, error })
  expect(parseCertificateFile(text, 10)).toEqual({ ok: false, error })
})

test('a hundred and forty certificates with one that cannot be read are a hundred and thirty-nine', () => {
  const text = good.repeat(100) + block('CERTIFICATE', 'BAA=') + good.repeat(39)
  const read = parseCertificateBundle(text, 1000, isCertificate)
  expect(read.ok && read.value.certificates.length).toBe(139)
  expect(read.ok && read.value.passedOver).toEqual(['block 101 at line 301 cannot be read as a certificate'])
})
