// Tests `bootstrap-token` and `runner-token`: what the text of a token proves, and what a token in the database allows.
import { describe, expect, test } from 'vitest'
import { refuse } from '../../../src/protocol/refusals.ts'
import { ok } from '../../../src/protocol/result.ts'
import { addSeconds, epochSeconds, seconds } from '../../../src/protocol/time.ts'
import { hashToken, mintToken } from '../../../src/protocol/tokens.ts'
import { mintedToken } from '../../../src/worker/attestors/minted-token.ts'
import { tokenClaims } from '../../../src/worker/enrollment/token-claims.ts'
import type { PresentedToken } from '../../../src/worker/store/admissions.ts'
import { trustWith } from '../../fakes/trust.ts'
import { attestorContract } from './contract.ts'

const now = epochSeconds(1_800_000_000)
const appraisal = { now, challengeNonce: 'A'.repeat(64), address: '192.0.2.1' }

const RUNNER: PresentedToken = {
  id: 'token-1',
  kind: 'runner',
  tenant: 'acme',
  runnerId: 'build-7',
  expiresAt: null,
  revokedAt: null,
  usedAt: null,
  usedBy: null,
}
const BOOTSTRAP: PresentedToken = {
  ...RUNNER,
  kind: 'bootstrap',
  runnerId: null,
  expiresAt: addSeconds(now, seconds(60)),
}

for (const row of [BOOTSTRAP, RUNNER]) {
  const { kind } = row
  attestorContract(`${kind}-token`, async () => {
    const token = mintToken(kind)
    const hash = await hashToken(token)
    const { fields, appraise } = mintedToken(kind)
    return {
      evidence: { token },
      now,
      trust: trustWith(),
      // With the look-up that the reserve step makes.
      attestor: {
        fields,
        appraise: async (evidence, given) => {
          const proof = await appraise({ token: String(evidence.token) }, given)
          if (!proof.ok) return proof
          return proof.value.tokenHash === hash ? tokenClaims(row, kind, now) : refuse('token_unknown')
        },
      },
    }
  })
}

test.each([
  ['bootstrap', 'runner'],
  ['runner', 'bootstrap'],
] as const)('a %s token proves nothing as a %s token, and is known by its hash alone', async (kind, other) => {
  const token = mintToken(kind)
  expect(await mintedToken(kind).appraise({ token }, appraisal)).toEqual(
    ok({ kind, tokenHash: await hashToken(token) }),
  )
  expect(await mintedToken(other).appraise({ token }, appraisal)).toMatchObject({
    error: { reason: 'token_wrong_kind' },
  })
})

describe('a token in the database', () => {
  test('names what it was minted for, and nothing else', () => {
    const claims = { tokenId: 'token-1', tenant: 'acme' }
    expect(tokenClaims(RUNNER, 'runner', now)).toEqual(ok({ mode: 'runner-token', runnerId: 'build-7', ...claims }))
    expect(tokenClaims(BOOTSTRAP, 'bootstrap', now)).toEqual(ok({ mode: 'bootstrap-token', ...claims }))
  })

  test.each<[string, PresentedToken, Partial<PresentedToken>, string]>([
    ['is revoked', RUNNER, { revokedAt: now }, 'token_revoked'],
    ['expires at this very second', RUNNER, { expiresAt: now }, 'token_expired'],
    ['is of another kind', RUNNER, { kind: 'bootstrap' }, 'token_wrong_kind'],
    ['has no runner ID', RUNNER, { runnerId: null }, 'token_wrong_kind'],
    ['is revoked, though used', BOOTSTRAP, { revokedAt: now, usedAt: now }, 'token_revoked'],
    ['expires unused at this very second', BOOTSTRAP, { expiresAt: now }, 'token_expired'],
    ['has no end', BOOTSTRAP, { expiresAt: null }, 'token_expired'],
  ])('that %s is refused, by its id', (_, token, changes, reason) => {
    expect(tokenClaims({ ...token, ...changes }, token.kind, now)).toMatchObject({
      error: { reason, claimed: { token: 'token-1' } },
    })
  })

  test('that has a second to live, or was used before it expired, is accepted', () => {
    const end = addSeconds(now, seconds(1))
    expect(tokenClaims({ ...RUNNER, expiresAt: end }, 'runner', now).ok).toBe(true)
    expect(tokenClaims({ ...BOOTSTRAP, expiresAt: end }, 'bootstrap', now).ok).toBe(true)
    expect(tokenClaims({ ...BOOTSTRAP, expiresAt: now, usedAt: now }, 'bootstrap', now).ok).toBe(true)
  })
})
