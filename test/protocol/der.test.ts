// Tests the DER reader and the DER writer, alone and against each other.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { bitsOf, oidOf, parseDer, smallIntegerOf, TAG } from '../../src/protocol/der.ts'
import {
  bitString,
  characterString,
  element,
  objectIdentifier,
  octetString,
  sequence,
  set,
  unsignedInteger,
} from '../../src/protocol/der-writer.ts'
import { bytesOf, element as forged } from '../fakes/ca-forge.ts'

describe('the DER reader', () => {
  test.each([
    ['an empty SEQUENCE', '3000'],
    ['a SEQUENCE of two INTEGERs', '3006020101020102'],
    ['an INTEGER whose high bit needs a zero', '02020080'],
    ['a negative INTEGER', '020180'],
    ['a TRUE', '0101ff'],
    ['a NULL', '0500'],
    ['an empty BIT STRING', '030100'],
    ['a BIT STRING with seven unused bits', '03020780'],
    ['a length of one more octet', `048180${'00'.repeat(128)}`],
    ['a length of two more octets', `04820100${'00'.repeat(256)}`],
    ['an OID arc of 2^32 - 1', '06062a8fffffff7f'],
  ])('takes %s', (_, hex) => {
    expect(parseDer(bytesOf(hex))?.bytes).toEqual(bytesOf(hex))
  })

  test.each([
    ['nothing', ''],
    ['half a header', '30'],
    ['a length past the end', '300102'],
    ['a child past its parent', '3003020201'],
    ['trailing octets', '30000000'],
    ['two elements', '30003000'],
    ['an indefinite length', '30800201010000'],
    ['a length of 5 in two octets', '048105aabbccddee'],
    ['a length of 128 in three octets', `04820080${'00'.repeat(128)}`],
    ['a length of 4 GiB', '0484ffffffff'],
    ['the reserved length', '04ff'],
    ['a tag number over 30', '1f810100'],
    ['an end mark', '0000'],
    ['an INTEGER of no octets', '0200'],
    ['an INTEGER with a spare zero', '0202007f'],
    ['an INTEGER with a spare sign', '0202ffff'],
    ['a BOOLEAN that is neither', '010101'],
    ['a BOOLEAN of two octets', '0102ffff'],
    ['a NULL with contents', '050100'],
    ['a BIT STRING of no octets', '0300'],
    ['a BIT STRING with eight unused bits', '03020800'],
    ['a BIT STRING with unused bits that are set', '03020781'],
    ['a BIT STRING with unused bits and no octets', '030101'],
    ['an OID of no octets', '0600'],
    ['an OID cut off in an arc', '06022a80'],
    ['an OID arc with a spare octet', '06032a8001'],
    ['an OID arc of 2^32', '06062a9080808000'],
    ['an OID arc of 2^64', '060b2a82808080808080808000'],
    ['a primitive SEQUENCE', '1000'],
    ['a constructed INTEGER', '2203020101'],
    ['a constructed OCTET STRING', '2403040100'],
  ])('refuses %s', (_, hex) => {
    expect(parseDer(bytesOf(hex))).toBeNull()
  })

  test('refuses 10,000 levels and 10,000 elements', () => {
    // From the inside out: each SEQUENCE holds the next, lengths right at every level.
    const headers: number[][] = []
    let length = 0
    for (let level = 0; level < 10_000; level++) {
      headers.push(
        length < 0x80
          ? [0x30, length]
          : length < 0x100
            ? [0x30, 0x81, length]
            : [0x30, 0x82, length >> 8, length & 0xff],
      )
      length += headers.at(-1)?.length ?? 0
    }
    expect(length).toBeLessThan(0x10000)
    expect(parseDer(Uint8Array.from(headers.reverse().flat()))).toBeNull()
    expect(parseDer(forged(0x30, ...Array.from({ length: 10_000 }, () => Uint8Array.of(0x05, 0x00))))).toBeNull()
  })

  test('reads values', () => {
    expect(oidOf(parseDer(bytesOf('06082a8648ce3d030107')) ?? undefined)).toBe('1.2.840.10045.3.1.7')
    expect(oidOf(parseDer(bytesOf('0603883703')) ?? undefined)).toBe('2.999.3')
    expect(smallIntegerOf(parseDer(bytesOf('02020080')) ?? undefined)).toBe(128)
    expect(smallIntegerOf(parseDer(bytesOf('0201ff')) ?? undefined)).toBeNull()
    expect(bitsOf(parseDer(bytesOf('03020780')) ?? undefined)).toBeNull()
  })

  test('never throws, and what it takes is all of its input', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
        const parsed = parseDer(Uint8Array.from(bytes))
        expect(parsed === null || parsed.bytes.length === bytes.length).toBe(true)
      }),
      { numRuns: 2000, verbose: true },
    )
  })

  test('takes every tree that is written in DER', () => {
    const { tree } = fc.letrec<{ tree: Uint8Array }>((tie) => ({
      tree: fc.oneof(
        { maxDepth: 6 },
        fc.uint8Array({ maxLength: 300 }).map((bytes) => forged(0x04, bytes)),
        fc.array(tie('tree'), { maxLength: 4 }).map((children) => forged(0x30, ...children)),
      ),
    }))
    fc.assert(
      fc.property(tree, (der) => {
        expect(parseDer(Uint8Array.from(der))?.bytes.length).toBe(der.length)
      }),
    )
  })
})

describe('the DER writer', () => {
  test.each([
    ['an empty SEQUENCE', sequence(), '3000'],
    ['a SET of a NULL', set(element(TAG.null)), '31020500'],
    ['an OCTET STRING', octetString(bytesOf('0102')), '04020102'],
    ['a BIT STRING', bitString(bytesOf('80')), '03020080'],
    ['a UTF8String', characterString(TAG.utf8String, 'ä'), '0c02c3a4'],
    ['zero', unsignedInteger(bytesOf('00')), '020100'],
    ['zero of no octets', unsignedInteger(bytesOf('')), '020100'],
    ['an INTEGER under a high bit', unsignedInteger(bytesOf('7f')), '02017f'],
    ['an INTEGER with a high bit', unsignedInteger(bytesOf('80')), '02020080'],
    ['an INTEGER with zeros in front', unsignedInteger(bytesOf('000001')), '020101'],
    ['a BIT STRING of 127 octets', bitString(new Uint8Array(126)), `037f00${'00'.repeat(126)}`],
    ['a length of one more octet', octetString(new Uint8Array(128)), `048180${'00'.repeat(128)}`],
    ['a length of two more octets', octetString(new Uint8Array(256)), `04820100${'00'.repeat(256)}`],
    ['an OID with two root arcs in one', objectIdentifier('2.999.3'), '0603883703'],
    ['an OID arc of 2^32 - 1', objectIdentifier('1.2.4294967295'), '06062a8fffffff7f'],
    ['the OID of P-256', objectIdentifier('1.2.840.10045.3.1.7'), '06082a8648ce3d030107'],
  ])('writes %s', (_, written, hex) => {
    expect(written).toEqual(bytesOf(hex))
    expect(parseDer(written)?.bytes).toEqual(written)
  })

  test('writes every OID so that the reader reads it', () => {
    const arc = fc.nat(0xffff_ffff)
    fc.assert(
      fc.property(fc.nat(2), fc.nat(39), fc.array(arc, { maxLength: 6 }), (root, second, arcs) => {
        const text = [root, second, ...arcs].join('.')
        expect(oidOf(parseDer(objectIdentifier(text)) ?? undefined)).toBe(text)
      }),
    )
  })

  test('writes every tree as an encoder of its own does', () => {
    const { tree } = fc.letrec<{ tree: [Uint8Array, Uint8Array] }>((tie) => ({
      tree: fc.oneof(
        { maxDepth: 6 },
        fc
          .uint8Array({ maxLength: 300 })
          .map((bytes): [Uint8Array, Uint8Array] => [octetString(bytes), forged(0x04, bytes)]),
        fc
          .array(tie('tree'), { maxLength: 4 })
          .map((children): [Uint8Array, Uint8Array] => [
            sequence(...children.map(([written]) => written)),
            forged(0x30, ...children.map(([, other]) => other)),
          ]),
      ),
    }))
    fc.assert(
      fc.property(tree, ([written, other]) => {
        expect(written).toEqual(other)
      }),
    )
  })

  test('writes nothing that the reader would not take for its length', () => {
    expect(parseDer(octetString(new Uint8Array(0xffff)))?.contents.length).toBe(0xffff)
    expect(() => octetString(new Uint8Array(0x10000))).toThrow(RangeError)
  })
})
