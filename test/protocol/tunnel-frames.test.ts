// Tests the parsers of tunnel frames, of the Client-Cert header and of the proof of a challenge.
import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { TUNNEL_FRAME_BYTES } from '../../src/protocol/limits.ts'
import {
  type ControlFrame,
  formatClientCert,
  formatProof,
  frameText,
  parseClientCert,
  parseControlFrame,
  parseProof,
  parseRunnerFrame,
} from '../../src/protocol/tunnel.ts'

const hello = { type: 'hello', version: 1, instanceId: 'runner-7', agent: 'muster/0.1.0' } as const

test('a hello is read, with its instance id or without', () => {
  expect(parseRunnerFrame(frameText(hello))).toEqual(hello)
  const unnamed = { ...hello, instanceId: null, agent: null }
  expect(parseRunnerFrame('{"type":"hello","version":1}')).toEqual(unnamed)
  expect(parseRunnerFrame('{"type":"hello","version":1,"instanceId":null,"agent":null}')).toEqual(unnamed)
})

test('labels are measured in code points', () => {
  const longest = { ...hello, instanceId: '🏃'.repeat(128), agent: '🏃'.repeat(64) }
  expect(parseRunnerFrame(JSON.stringify(longest))).toEqual(longest)
  expect(parseRunnerFrame(JSON.stringify({ ...longest, instanceId: '🏃'.repeat(129) }))).toBeNull()
  expect(parseRunnerFrame(JSON.stringify({ ...longest, agent: '🏃'.repeat(65) }))).toBeNull()
})

test('a label of 128 characters is read as at the door, whatever they take in UTF-16', () => {
  const label = '🚀'.repeat(128)
  expect(parseRunnerFrame(frameText({ ...hello, instanceId: label }))).toEqual({ ...hello, instanceId: label })
  expect(parseRunnerFrame(frameText({ ...hello, instanceId: `${label}🚀` }))).toBeNull()
})

test.each<[string, unknown]>([
  ['another version', '{"type":"hello","version":2,"instanceId":null}'],
  ['a version as text', '{"type":"hello","version":"1","instanceId":null}'],
  ['no version', '{"type":"hello","instanceId":null}'],
  ['an unknown field', '{"type":"hello","version":1,"tenant":"acme"}'],
  ['a key that stands twice', '{"type":"hello","version":1,"version":1}'],
  ['an unknown type', '{"type":"exec","command":"id"}'],
  ['a type of Object.prototype', '{"type":"toString"}'],
  ['a type that is no text', '{"type":["hello"],"version":1}'],
  ['a frame of the other direction', '{"type":"drain"}'],
  ['a label that reorders the line', '{"type":"hello","version":1,"instanceId":"\u202e"}'],
  ['a label over its length', JSON.stringify({ ...hello, instanceId: 'x'.repeat(129) })],
  ['an agent that is no text', '{"type":"hello","version":1,"agent":1}'],
  ['an agent over its length', JSON.stringify({ ...hello, agent: 'x'.repeat(65) })],
  ['an agent of two lines', JSON.stringify({ ...hello, agent: 'muster/1\nroot' })],
  ['no object', '[]'],
  ['no JSON', 'hello'],
  ['nothing', ''],
  ['a binary frame', new TextEncoder().encode(frameText(hello)).buffer],
])('the first frame may not be %s', (_, message) => {
  expect(parseRunnerFrame(message)).toBeNull()
})

test('a frame may have 4 KiB in UTF-8 and not one octet more', () => {
  const text = frameText(hello)
  expect(parseRunnerFrame(text + ' '.repeat(TUNNEL_FRAME_BYTES - text.length))).toEqual(hello)
  expect(parseRunnerFrame(text + ' '.repeat(TUNNEL_FRAME_BYTES - text.length + 1))).toBeNull()
  expect(parseRunnerFrame(JSON.stringify({ ...hello, instanceId: 'é'.repeat(2040) }))).toBeNull()
})

test('what the control plane says is read by the runner', () => {
  const ready: ControlFrame = {
    type: 'ready',
    enrollmentId: '019a0000-0000-7000-8000-000000000000',
    spiffeId: 'spiffe://rootpilot/tenant/acme/runner',
    runnerId: null,
    notAfter: '2026-03-01T12:15:00Z',
  }
  expect(parseControlFrame(frameText(ready))).toEqual(ready)
  expect(parseControlFrame(frameText({ type: 'drain' }))).toEqual({ type: 'drain' })
  expect(parseControlFrame(frameText(hello))).toBeNull()
})

test('no message makes a frame parser throw', () => {
  const check = fc.property(fc.oneof(fc.string(), fc.json(), fc.anything()), (message) => {
    parseRunnerFrame(message)
    parseControlFrame(message)
  })
  fc.assert(check, { verbose: 1 })
})

test('any certificate survives its header, and a header has one spelling', () => {
  fc.assert(
    fc.property(fc.uint8Array({ minLength: 1, maxLength: 2000 }), (der) => {
      const header = formatClientCert(der)
      expect(parseClientCert(header)).toEqual(der)
      expect(parseClientCert(`${header.slice(0, 2)} ${header.slice(2)}`)).toBeNull()
    }),
  )
})

test.each([
  '',
  ':',
  '::',
  ':AA==',
  'AA==:',
  ':A:',
  ':AA:',
  ':AB==:',
  ':AA==:;a=1',
  ':AA==:, :AA==:',
  ':AA__:',
  `:${'A'.repeat(20_000)}:`,
])('a Client-Cert header that is not one byte sequence is not read: %s', (header) => {
  expect(parseClientCert(header)).toBeNull()
})

test('a proof is a challenge and a signature of 64 octets', () => {
  const signature = crypto.getRandomValues(new Uint8Array(64))
  expect(parseProof(formatProof('abc', signature))).toEqual({ challenge: 'abc', signature })
  expect(parseProof(formatProof('abc', signature.subarray(1)))).toBeNull()
  expect(parseProof(formatProof('', signature))).toBeNull()
  expect(parseProof(`${formatProof('abc', signature)}.x`)).toBeNull()
  expect(parseProof('abc')).toBeNull()
})
