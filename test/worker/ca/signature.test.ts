// Tests the conversion of ECDSA signatures between DER and r ‖ s.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { signatureToDer } from '../../../src/worker/ca/issue.ts'
import { signatureToRaw } from '../../../src/worker/ca/signature.ts'
import { bytesOf } from '../../fakes/ca-forge.ts'

describe('ECDSA signatures', () => {
  test('DER and r ‖ s convert to each other without loss', () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 64, maxLength: 64 }), fc.nat(31), fc.nat(31), (bytes, a, b) => {
        const raw = Uint8Array.from(bytes)
        // Zeros in front, as one signature of 256 has.
        raw.fill(0, 0, a)
        raw.fill(0, 32, 32 + b)
        raw[31] = 1
        raw[63] = 1
        expect(signatureToRaw(signatureToDer(raw), 32)).toEqual(raw)
      }),
    )
  })

  test.each([
    ['a zero r', '3006020100020101'],
    ['a negative r', '3006020181020101'],
    ['three INTEGERs', '3009020101020101020101'],
    ['one INTEGER', '3003020101'],
    ['an r of 33 octets', `302602210101${'00'.repeat(31)}020101`],
    ['trailing octets', '300602010102010100'],
    ['64 octets of r ‖ s', '11'.repeat(64)],
  ])('refuses %s', (_, hex) => {
    expect(signatureToRaw(bytesOf(hex), 32)).toBeNull()
  })
})
