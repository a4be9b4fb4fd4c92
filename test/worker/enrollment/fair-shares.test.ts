// Tests how the sweep divides its calls among bans and revocations.
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { fairShares } from '../../../src/worker/enrollment/fair-shares.ts'

test.each([
  ['one of very many leaves room for the others', [800, 1, 3], [796, 1, 3]],
  ['two of very many share alike', [800, 2, 800], [399, 2, 399]],
  ['all have what they need where there is room', [100, 0, 700], [100, 0, 700]],
  ['none are none', [], []],
])('%s', (_, lengths, shares) => {
  expect(fairShares(lengths, 800)).toEqual(shares)
})

test('nobody gets more than there is, and each gets an equal part of the room or all that it needs', () => {
  fc.assert(
    fc.property(fc.array(fc.nat({ max: 800 }), { minLength: 1, maxLength: 21 }), (lengths) => {
      const shares = fairShares(lengths, 800)
      expect(shares.reduce((sum, share) => sum + share, 0)).toBeLessThanOrEqual(800)
      const part = Math.floor(800 / lengths.length)
      for (const [i, length] of lengths.entries()) expect(shares[i]).toBeGreaterThanOrEqual(Math.min(length, part))
    }),
  )
})
