// Tests what runner and control plane share: JSON, base64url, ids, shapes, problem documents.

import fc from 'fast-check'
import * as v from 'valibot'
import { describe, expect, test } from 'vitest'
import { decodeBase64, decodeBase64url, encodeBase64, encodeBase64url } from '../../src/protocol/bytes.ts'
import { isPrintable } from '../../src/protocol/characters.ts'
import { parseEnrollRequest, parseEvidence } from '../../src/protocol/enroll.ts'
import { REASONS, type Reason } from '../../src/protocol/reasons.ts'
import { problemOf } from '../../src/protocol/refusals.ts'
import { text, texts } from '../../src/protocol/shape.ts'
import { formatSpiffeId, parseSpiffeId } from '../../src/protocol/spiffe-id.ts'
import { type Json, readJson } from '../../src/protocol/strict-json.ts'
import { epochMilliseconds, epochSeconds } from '../../src/protocol/time.ts'
import { isMintableRunnerId, kindOfToken, mintToken, withoutSecrets } from '../../src/protocol/tokens.ts'
import { firstUuidv7At, isUuidv7, uuidv7 } from '../../src/protocol/uuid.ts'

const bytesOf = (text: string) => new TextEncoder().encode(text)
const read = (text: string) => readJson(bytesOf(text))

describe('JSON', () => {
  test('reads what JSON.parse reads', () => {
    fc.assert(
      fc.property(fc.json({ maxDepth: 4, noUnicodeString: false }), (text) => {
        const reading = read(text)
        // fast-check may make two equal keys; then ours refuses and nothing else is claimed.
        if (reading.ok) expect(reading.value).toEqual(JSON.parse(text))
        else expect(reading.error).toContain('stands twice')
      }),
    )
  })

  test.each([
    ['at the top', '{"a":1,"a":2}'],
    ['written with an escape', '{"a":1,"\\u0061":2}'],
    ['inside an array', '[{"b":{"a":1,"a":1}}]'],
    ['after a nested object', '{"a":{"a":1},"b":[1,"a",{"c":2}],"a":3}'],
    ['named __proto__', '{"__proto__":1,"__proto__":2}'],
  ])('refuses a key that stands twice, %s', (_, text) => {
    expect(read(text)).toMatchObject({ ok: false, error: expect.stringContaining('stands twice') })
  })

  test.each(['{"a":"a","b":"a"}', '["a","a",":","{"]', '{"a":{"a":{"a":1}}}', '{"a\\"b":1,"a":"\\\\"}'])(
    'takes %s',
    (text) => {
      expect(read(text).ok).toBe(true)
    },
  )

  test.each(['', '{', '{"a":1}x', '\ufeff{}', "{'a':1}", 'NaN'])('refuses what is not JSON: %j', (text) => {
    expect(read(text)).toEqual({ ok: false, error: 'the body is not JSON in UTF-8' })
  })

  test('a key in a fault is escaped: no control characters, no change of text direction', () => {
    for (const c of ['\u009b', '\u202e', '\u2066', '\u007f', '\ufeff']) {
      const reading = read(`{"${c}31m":1,"${c}31m":2}`)
      expect(reading.ok || isPrintable(reading.error)).toBe(true)
      expect(reading).toMatchObject({ ok: false, error: expect.stringContaining('\\u') })
    }
  })

  test('refuses bytes that are not UTF-8', () => {
    expect(readJson(new Uint8Array([0x22, 0xff, 0x22])).ok).toBe(false)
  })

  test('a text that breaks off within a character leaves nothing for the next one', () => {
    expect(readJson(new Uint8Array([0x22, 0xc3])).ok).toBe(false)
    expect(readJson(new Uint8Array([0xa4, 0x22, 0x22])).ok).toBe(false)
    expect(read('"ä"')).toMatchObject({ ok: true, value: 'ä' })
  })

  test('refuses depth without recursing into it', () => {
    expect(read('['.repeat(5000) + ']'.repeat(5000))).toMatchObject({ ok: false })
  })
})

describe('base64url', () => {
  test('reads back what it wrote', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 70 }), (bytes) => {
        expect(decodeBase64url(encodeBase64url(bytes))).toEqual(bytes)
      }),
    )
  })

  test('has one spelling for the same bytes', () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 12 }), (text) => {
        const bytes = decodeBase64url(text)
        if (bytes !== null) expect(encodeBase64url(bytes)).toBe(text)
      }),
    )
  })

  test.each(['AB==', 'A', 'AB', 'A+/B', 'AA\n', ' AAA', 'AAAAA'])('refuses %j', (text) => {
    expect(decodeBase64url(text)).toBeNull()
  })
})

describe('base64', () => {
  test('reads back what it wrote, and nothing but that', () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 1, maxLength: 70 }), fc.string({ maxLength: 12 }), (bytes, text) => {
        expect(decodeBase64(encodeBase64(bytes))).toEqual(bytes)
        const read = decodeBase64(text)
        if (read !== null) expect(encodeBase64(read)).toBe(text)
      }),
    )
  })

  test.each(['', 'AB==', 'AA', 'A===', 'AAA', 'AAB=', '-_AA', 'AA\n=', 'AA==AA==', 'AA AA', ' AAAA', 'AAAA\n', 'AAé='])(
    'refuses %j',
    (text) => {
      expect(decodeBase64(text)).toBeNull()
    },
  )
})

describe('SPIFFE IDs', () => {
  test('the one form is read back', () => {
    expect(parseSpiffeId(formatSpiffeId({ trustDomain: 'rootpilot', tenant: 'acme' }))).toEqual({
      trustDomain: 'rootpilot',
      tenant: 'acme',
    })
  })

  test.each([
    'SPIFFE://rootpilot/tenant/acme/runner',
    'spiffe://Rootpilot/tenant/acme/runner',
    'spiffe://rootpilot/tenant/acme/runner/',
    'spiffe://rootpilot/tenant/acme/runner/x/y',
    'spiffe://rootpilot/tenant/../runner',
    'spiffe://rootpilot/tenant/a%63me/runner',
    'spiffe://user@rootpilot/tenant/acme/runner',
    'spiffe://rootpilot:443/tenant/acme/runner',
    'spiffe://rootpilot/tenant//runner',
    'spiffe://rootpilot/tenant/acme/runner\n',
    'spiffe:///tenant/acme/runner',
    'https://rootpilot/tenant/acme/runner',
    'spiffe://rootpilot/tenant/acme/runner?x',
  ])('refuses %j', (text) => {
    expect(parseSpiffeId(text)).toBeNull()
  })
})

describe('tokens and ids', () => {
  test('a minted token has a prefix, 43 characters and no dot', () => {
    expect(mintToken('bootstrap')).toMatch(/^muster_bt_[\w-]{43}$/)
    expect(kindOfToken(mintToken('runner'))).toBe('runner')
  })

  test.each([
    '',
    'muster_bt_',
    `muster_xx_${'A'.repeat(43)}`,
    `muster_bt_${'A'.repeat(42)}`,
    `muster_bt_${'A'.repeat(44)}`,
    `muster_bt_${'A'.repeat(42)}.`,
    ` ${mintToken('runner')}`,
  ])('a token of another form has no kind: %j', (text) => {
    expect(kindOfToken(text)).toBeNull()
  })

  test('a line that quotes tokens shows their prefixes alone', () => {
    const line = withoutSecrets(
      `"${mintToken('runner')}", ${mintToken('bootstrap')} and muster_bt_cut; not muster_bt_.`,
    )
    expect(line).toBe('"muster_rt_…", muster_bt_… and muster_bt_…; not muster_bt_.')
  })

  test.each([
    ['a/b', false],
    ['a.b', false],
    ['', false],
    ['a'.repeat(129), false],
    ['ä', false],
    ['Build_7-x', true],
    ['a'.repeat(128), true],
  ] as const)('whether a token may be minted for %j: %s', (id, mintable) => {
    expect(isMintableRunnerId(id)).toBe(mintable)
  })

  test('UUIDv7s sort by time and after the first one of their second', () => {
    const early = uuidv7(epochMilliseconds(1_700_000_000_999))
    const late = uuidv7(epochMilliseconds(1_700_000_001_000))
    expect(isUuidv7(early) && isUuidv7(late)).toBe(true)
    expect([late, early].sort()).toEqual([early, late])
    expect(firstUuidv7At(epochSeconds(1_700_000_001)) <= late).toBe(true)
    expect(firstUuidv7At(epochSeconds(1_700_000_001)) > early).toBe(true)
  })
})

describe('the shape of a request', () => {
  const good = { version: 1, attestation: { mode: 'bootstrap-token', token: 't' }, csr: 'c', challengeNonce: 'n' }

  test('the documented request is taken, with and without a label', () => {
    expect(parseEnrollRequest(good)).toMatchObject({
      ok: true,
      value: { instanceId: null, attestation: { mode: 'bootstrap-token', fields: { token: 't' } } },
    })
    expect(parseEnrollRequest({ ...good, instanceId: 'x'.repeat(128) })).toMatchObject({ ok: true })
    expect(parseEnrollRequest({ ...good, instanceId: '🚀'.repeat(128) })).toMatchObject({ ok: true })
  })

  test.each<[string, Json, string]>([
    ['a list', [], 'JSON object'],
    ['null', null, 'JSON object'],
    ['version as text', { ...good, version: '1' }, 'version'],
    ['version 2', { ...good, version: 2 }, 'version'],
    ['no version', { attestation: good.attestation, csr: 'c', challengeNonce: 'n' }, 'version'],
    ['an unknown field', { ...good, tenant: 'acme' }, '"tenant"'],
    ['attestation null', { ...good, attestation: null }, 'attestation'],
    ['attestation a list', { ...good, attestation: [good.attestation] }, 'attestation'],
    ['mode a number', { ...good, attestation: { mode: 1 } }, 'attestation.mode'],
    ['csr a list', { ...good, csr: ['c'] }, 'csr'],
    ['nonce null', { ...good, challengeNonce: null }, 'challengeNonce'],
    ['a label too long', { ...good, instanceId: 'x'.repeat(129) }, 'instanceId'],
    ['a label with a line end', { ...good, instanceId: 'a\nb' }, 'instanceId'],
    ['a label that turns text around', { ...good, instanceId: 'a\u202eb' }, 'instanceId'],
  ])('%s is malformed, and the field is named', (_, body, field) => {
    expect(parseEnrollRequest(body)).toMatchObject({
      ok: false,
      error: { reason: 'body_malformed', detail: expect.stringContaining(field) },
    })
  })

  test('an own __proto__ key is an unknown field', () => {
    const reading = read('{"version":1,"attestation":{"mode":"x"},"csr":"","challengeNonce":"","__proto__":{"a":1}}')
    expect(reading.ok && parseEnrollRequest(reading.value).ok).toBe(false)
  })

  const FIELDS = v.strictObject({ region: text, headers: texts })
  test.each<[Record<string, Json>, string]>([
    [{ region: 'r', headers: {}, url: 'https://x' }, '"url"'],
    [{ region: 'r' }, 'headers'],
    [{ headers: {} }, 'region'],
    [{ region: 'r', headers: { a: ['b'] } }, '"a"'],
    [{ region: 'r', headers: [] }, 'headers'],
    [{ region: 1, headers: {} }, 'region'],
  ])('evidence %j is malformed, and the field is named', (given, field) => {
    expect(parseEvidence(FIELDS, given)).toMatchObject({
      ok: false,
      error: { detail: expect.stringContaining(field) },
    })
  })
})

describe('problem documents', () => {
  test.each(Object.keys(REASONS) as Reason[])(
    'the reason %s becomes a problem with its code and a status of its own range',
    (reason) => {
      const { problem, retryAfter } = problemOf({ reason }, 'id', epochSeconds(1_767_225_600))
      expect(problem).toMatchObject({
        type: `urn:muster:${REASONS[reason]}`,
        code: REASONS[reason],
        requestId: 'id',
        serverTime: '2026-01-01T00:00:00Z',
      })
      expect(retryAfter !== null).toBe(
        ['rate_limited', 'keys_unavailable', 'upstream_unavailable'].includes(problem.code),
      )
    },
  )

  test('every failed attestation gets the same problem text, whatever its reason and detail', () => {
    const details = (Object.keys(REASONS) as Reason[])
      .filter((reason) => REASONS[reason] === 'attestation_invalid')
      .map((reason) =>
        JSON.stringify(problemOf({ reason, detail: 'secret', claimed: { a: 'b' } }, 'id', epochSeconds(0))),
      )
    expect(details.length).toBeGreaterThan(20)
    expect(new Set(details).size).toBe(1)
  })
})

test.each([
  ['plain text', true],
  ['ünïcode ☃', true],
  ['tab\t', false],
  ['\u0000', false],
  ['\u2066x', false],
  ['\u009b', false],
  ['\ud800', false],
  ['\u2028', false],
] as const)('whether %j is printable: %s', (text, printable) => {
  expect(isPrintable(text)).toBe(printable)
})
