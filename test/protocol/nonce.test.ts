// Tests that a nonce is bound to the one key that it was made for.
import { expect, test } from 'vitest'
import { makeNonce, NONCE_CHARACTERS, nonceIsBoundTo } from '../../src/protocol/nonce.ts'

const spki = crypto.getRandomValues(new Uint8Array(91))

test('a nonce is bound to the key it was made for', async () => {
  const nonce = await makeNonce(spki)
  expect(nonce).toHaveLength(NONCE_CHARACTERS)
  expect(await nonceIsBoundTo(nonce, spki)).toBe(true)
})

test('a nonce is bound to no other key', async () => {
  const other = spki.slice()
  other[90] = (other[90] ?? 0) ^ 1
  expect(await nonceIsBoundTo(await makeNonce(spki), other)).toBe(false)
})

test.each(['', 'A'.repeat(63), 'A'.repeat(65), '='.repeat(64), ' '.repeat(64)])(
  'a nonce of another form is bound to nothing: %s',
  async (nonce) => {
    expect(await nonceIsBoundTo(nonce, spki)).toBe(false)
  },
)
