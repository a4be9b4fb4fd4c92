// Tests the reader of certificate requests: which are accepted, and what is taken from them.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { parsePem } from '../../../src/protocol/pem.ts'
import { readCsr } from '../../../src/worker/ca/csr.ts'
import manifest from '../../cases/csr/manifest.json'
import {
  bytesOf,
  challenge,
  element,
  extensionRequest,
  forgeCsr,
  generateP256,
  type Octets,
  pem,
  spkiOf,
} from '../../fakes/ca-forge.ts'

const files = import.meta.glob<string>('../../cases/csr/*.{pem,txt}', { query: '?raw', import: 'default', eager: true })
const NONCE = 'q3Zx_7mYk-Ew0rT2uVb9_aLpQ4sNc6Df8GhJ1iKoM2U'

const keys = await generateP256()
const csr = async (...attributes: Octets[]) => pem('CERTIFICATE REQUEST', await forgeCsr(keys, attributes))

async function detailOf(text: string): Promise<string> {
  const read = await readCsr(text)
  expect(read.ok ? 'accepted' : read.error.reason).toBe('csr_invalid')
  return (read.ok ? undefined : read.error.detail) ?? ''
}

describe('requests as tools and attackers write them', () => {
  test.each(manifest)('$expect: $file ($why)', async ({ file, nonce, expect: verdict }) => {
    const text = files[`../../cases/csr/${file}`] ?? ''
    const read = await readCsr(text)
    if (verdict === 'csr_invalid') {
      expect(read.ok ? 'accepted' : read.error.reason).toBe('csr_invalid')
    } else {
      expect(read.ok && (read.value.challenge === nonce ? 'accept' : 'other-challenge')).toBe(verdict)
    }
  })

  test('a request of 1 MiB is refused by its size', async () => {
    expect(await detailOf(pem('CERTIFICATE REQUEST', new Uint8Array(1024 * 1024)))).toContain('too long')
  })

  test('the detail of a refused request quotes nothing of it', async () => {
    for (const { file } of manifest) {
      const read = await readCsr(files[`../../cases/csr/${file}`] ?? '')
      if (!read.ok) expect(read.error.detail).toMatch(/^csr: [\x20-\x7e]{3,110}$/)
      if (!read.ok) expect(read.error.detail).not.toMatch(/[A-Za-z0-9+/_-]{30}/)
    }
  })
})

describe('what is taken from a request', () => {
  test('its key, byte for byte, the hash of it, and the challenge', async () => {
    const read = await readCsr(await csr(challenge(NONCE)))
    const spki = await spkiOf(keys)
    expect(read.ok && read.value.spki).toEqual(spki)
    const hash = new Uint8Array(await crypto.subtle.digest('SHA-256', spki))
    expect(read.ok && read.value.publicKeyHash).toBe([...hash].map((o) => o.toString(16).padStart(2, '0')).join(''))
    expect(read.ok && read.value.challenge).toBe(NONCE)
  })

  test.each([
    ['UTF8String', 0x0c, NONCE, NONCE],
    ['PrintableString', 0x13, NONCE, NONCE],
    ['TeletexString', 0x14, NONCE, NONCE],
    ['IA5String', 0x16, NONCE, NONCE],
    ['BMPString', 0x1e, [...NONCE].map((c) => `\0${c}`).join(''), NONCE],
    ['UniversalString', 0x1c, [...NONCE].map((c) => `\0\0\0${c}`).join(''), NONCE],
    ['UTF8String with two octets a character', 0x0c, 'é'.repeat(255), 'é'.repeat(255)],
    ['UTF8String with a byte order mark', 0x0c, '\ufeffx', '\ufeffx'],
  ])('a challenge in a %s', async (_, tag, text, expected) => {
    const read = await readCsr(await csr(challenge(text, tag)))
    expect(read.ok && read.value.challenge).toBe(expected)
  })

  test.each<[string, Octets[]]>([
    ['no attribute', []],
    ['an empty attribute', [challenge(NONCE), element(0x30, bytesOf('06022a03'), element(0x31))]],
    ['an empty challengePassword', [element(0x30, bytesOf('06092a864886f70d010907'), element(0x31))]],
    ['a challenge of no characters', [challenge('')]],
    ['a challenge of 256 characters', [challenge('x'.repeat(256))]],
    ['two challenges', [challenge(NONCE), challenge(NONCE)]],
    [
      'an attribute of three parts',
      [challenge(NONCE), element(0x30, bytesOf('06022a03'), element(0x31, bytesOf('0500')), bytesOf('0500'))],
    ],
    [
      'an attribute that is a SET',
      [challenge(NONCE), element(0x31, bytesOf('06022a03'), element(0x31, bytesOf('0500')))],
    ],
    ['an attribute without a type', [challenge(NONCE), element(0x30)]],
    [
      'an INTEGER as the challenge',
      [element(0x30, bytesOf('06092a864886f70d010907'), element(0x31, bytesOf('020101')))],
    ],
    ['a constructed string', [challenge(`\x0c\x01x`, 0x2c)]],
    ['UTF-8 cut off', [element(0x30, bytesOf('06092a864886f70d010907'), element(0x31, bytesOf('0c01c3')))]],
    ['a BMPString of odd length', [challenge('x', 0x1e)]],
    [
      'a UniversalString past Unicode',
      [element(0x30, bytesOf('06092a864886f70d010907'), element(0x31, bytesOf('1c047fffffff')))],
    ],
    [
      'an empty extension request',
      [challenge(NONCE), element(0x30, bytesOf('06092a864886f70d01090e'), element(0x31, element(0x30)))],
    ],
  ])('refused: %s', async (_, attributes) => {
    expect(await detailOf(await csr(...attributes))).not.toBe('')
  })

  // An empty list in an extension crashed an issuer (CVE-2026-40097).
  test.each(['0f', '11', '12', '1e', '1f', '20', '24', '25', '36'])(
    'refused: nothing in extension 2.5.29.0x%s',
    async (arc) => {
      for (const empty of ['3000', '3100', '030100']) {
        const request = extensionRequest(bytesOf(`0603551d${arc}`), bytesOf(empty))
        expect(await detailOf(await csr(challenge(NONCE), request))).toContain('empty extension')
      }
    },
  )

  test('CA:FALSE, which is written as an empty list, is read past', async () => {
    const read = await readCsr(await csr(challenge(NONCE), extensionRequest(bytesOf('0603551d13'), bytesOf('3000'))))
    expect(read.ok).toBe(true)
  })
})

describe('the PEM of a request', () => {
  test('both headers, LF and CRLF, with and without a last line end', async () => {
    const der = await forgeCsr(keys, [challenge(NONCE)])
    for (const label of ['CERTIFICATE REQUEST', 'NEW CERTIFICATE REQUEST']) {
      for (const lineEnd of ['\n', '\r\n']) {
        const text = pem(label, der, lineEnd)
        expect((await readCsr(text)).ok).toBe(true)
        expect((await readCsr(text.trimEnd())).ok).toBe(true)
      }
    }
  })

  test.each<[string, (text: string) => string]>([
    ['leading text', (text) => `Certificate Request:\n${text}`],
    ['a leading empty line', (text) => `\n${text}`],
    ['a leading space', (text) => ` ${text}`],
    ['trailing text', (text) => `${text}x`],
    ['a trailing space', (text) => `${text} `],
    ['a second block', (text) => text + text],
    ['a key after it', (text) => text + pem('PRIVATE KEY', new Uint8Array(40))],
    ['a space within a line', (text) => text.replace('MI', 'M I')],
    ['a tab at the end of a line', (text) => text.replace('REQUEST-----\n', 'REQUEST-----\t\n')],
    ['carriage returns alone', (text) => text.replaceAll('\n', '\r')],
    ['an empty line within', (text) => text.replace('-----\n', '-----\n\n')],
    ['a header within', (text) => text.replace('-----\n', '-----\nProc-Type: 4,ENCRYPTED\n\n')],
    ['base64url', (text) => text.replaceAll('+', '-').replace('MI', 'M_')],
    ['no END line', (text) => text.slice(0, text.indexOf('-----END'))],
    ['lower-case labels', (text) => text.replaceAll('CERTIFICATE REQUEST', 'certificate request')],
    ['a NUL', (text) => text.replace('MI', 'M\0')],
    ['a line separator of Unicode', (text) => text.replace('MI', '\u2028MI')],
  ])('refused: %s', async (_, change) => {
    expect(await detailOf(change(await csr(challenge(NONCE))))).not.toBe('')
  })

  test('base64 has one spelling', () => {
    const body = (text: string) => parsePem(`-----BEGIN X-----\n${text}\n-----END X-----\n`, 1)
    expect(body('AA==').ok).toBe(true)
    for (const text of ['AB==', 'AA', 'AA=', 'AAB=', 'A===', '====', 'AA==AAAA', 'AA=A', '']) {
      expect(body(text).ok, text).toBe(false)
    }
  })
})

test('2000 fresh signatures all verify', async () => {
  for (let i = 0; i < 2000; i++) {
    const read = await readCsr(await csr(challenge(NONCE)))
    if (!read.ok) expect.fail(`signature ${i}: ${read.error.detail}`)
  }
}, 60_000)

test('a request changed in any octet is never accepted for another key or challenge', async () => {
  const der = await forgeCsr(keys, [challenge(NONCE), extensionRequest(bytesOf('0603551d13'), bytesOf('3000'))])
  await fc.assert(
    fc.asyncProperty(fc.nat(der.length - 1), fc.integer({ min: 1, max: 255 }), async (at, flip) => {
      const changed = der.slice()
      changed[at] = (changed[at] as number) ^ flip
      const read = await readCsr(pem('CERTIFICATE REQUEST', changed))
      expect(read.ok ? 'accepted' : read.error.reason).toBe('csr_invalid')
    }),
    { numRuns: 500, verbose: true },
  )
})

test('whatever is sent, the answer is a refusal and never an exception', async () => {
  const text = await csr(challenge(NONCE))
  const junk = fc.oneof(
    fc.string({ unit: 'binary', maxLength: 300 }),
    fc.uint8Array({ maxLength: 400 }).map((bytes) => pem('CERTIFICATE REQUEST', bytes)),
    fc.tuple(fc.nat(text.length), fc.nat(text.length), fc.string({ maxLength: 4 })).map(([a, b, middle]) => {
      return text.slice(0, a) + middle + text.slice(b)
    }),
  )
  await fc.assert(
    fc.asyncProperty(junk, async (text) => {
      const read = await readCsr(text)
      expect(read.ok || read.error.reason === 'csr_invalid').toBe(true)
    }),
    { numRuns: 1000, verbose: true },
  )
})
