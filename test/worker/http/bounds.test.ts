// Tests that a body is read to its bound and no further, whatever length it claims to have.
import { expect, test } from 'vitest'
import { readBytes } from '../../../src/worker/http/bounds.ts'

const LIMIT = 8

/** A body of `length` octets of which the header says `announced`. */
async function read(length: number, announced: string | null) {
  const headers = announced === null ? {} : { 'content-length': announced }
  const request = new Request('https://muster.example.com', { method: 'POST', body: new Uint8Array(length), headers })
  const bytes = await readBytes(request, LIMIT)
  return bytes.ok ? bytes.value.length : bytes.error.reason
}

test.each([
  [0, null, 0],
  [0, '0', 0],
  [1, '1', 1],
  [LIMIT, null, LIMIT],
  [LIMIT, '8', LIMIT],
  [LIMIT + 1, null, 'body_too_large'],
  [LIMIT + 1, '9', 'body_too_large'],
  [100_000, null, 'body_too_large'],
  [1, '9', 'body_too_large'],
  // Lies, which HTTP itself makes impossible.
  [100_000, '8', 'body_too_large'],
  [3, '8', 3],
  [3, '-1', 3],
  [3, 'many', 3],
])('of %i octets, announced as %s: %s', async (length, announced, outcome) => {
  expect(await read(length, announced)).toBe(outcome)
})

test('a request without a body has none to read', async () => {
  const bytes = await readBytes(new Request('https://muster.example.com'), LIMIT)
  expect(bytes).toEqual({ ok: true, value: new Uint8Array(0) })
})

test('a body that is cut off is malformed, and no bug', async () => {
  const { readable, writable } = new IdentityTransformStream()
  const writer = writable.getWriter()
  const request = new Request('https://muster.example.com', { method: 'POST', body: readable })
  const reading = readBytes(request, LIMIT)
  await writer.write(new Uint8Array(3))
  await writer.abort(new Error('the client went away'))
  expect(await reading).toMatchObject({ ok: false, error: { reason: 'body_malformed' } })
})
