// Tests the attestors of the two kinds of minted token, and that neither accepts the other kind.
import { describe, expect, test } from 'vitest'
import { ok } from '../../../src/protocol/result.ts'
import { epochSeconds } from '../../../src/protocol/time.ts'
import { hashToken, mintToken, type TokenKind } from '../../../src/protocol/tokens.ts'
import { bootstrapToken } from '../../../src/worker/attestors/bootstrap-token.ts'
import type { MintedToken } from '../../../src/worker/attestors/minted-token.ts'
import { runnerToken } from '../../../src/worker/attestors/runner-token.ts'
import { trustWith } from '../../fakes/trust.ts'
import { attestorContract } from './contract.ts'

const now = epochSeconds(1_800_000_000)
const appraisal = { now, challengeNonce: 'A'.repeat(64), address: '192.0.2.1' }

async function minted(kind: TokenKind, changes: Partial<MintedToken> = {}) {
  const token = mintToken(kind)
  const hash = await hashToken(token)
  const row: MintedToken = {
    id: 'token-1',
    kind,
    tenant: 'acme',
    runnerId: kind === 'runner' ? 'build-7' : null,
    expiresAt: kind === 'runner' ? null : epochSeconds(now + 60),
    revokedAt: null,
    usedAt: null,
    ...changes,
  }
  const lookups: string[] = []
  const find = async (asked: string) => {
    lookups.push(asked)
    return asked === hash ? row : null
  }
  return { token, find, lookups }
}

const trust = trustWith()
attestorContract('runner-token', async () => {
  const { token, find } = await minted('runner')
  return { attestor: runnerToken(find), evidence: { token }, now, trust }
})
attestorContract('bootstrap-token', async () => {
  const { token, find } = await minted('bootstrap')
  return { attestor: bootstrapToken(find), evidence: { token }, now, trust }
})

describe('a runner token', () => {
  const appraise = async (kind: TokenKind, changes: Partial<MintedToken> = {}) => {
    const { token, find } = await minted(kind, changes)
    return runnerToken(find).appraise({ token }, appraisal)
  }

  test('names the runner ID and tenant that it was minted for, and no other', async () => {
    expect(await appraise('runner')).toEqual(
      ok({ mode: 'runner-token', tokenId: 'token-1', tenant: 'acme', runnerId: 'build-7' }),
    )
  })

  test.each([
    ['revoked', { revokedAt: now }, 'token_revoked'],
    ['expired at this very second', { expiresAt: now }, 'token_expired'],
    ['recorded as another kind', { kind: 'bootstrap' }, 'token_wrong_kind'],
    ['recorded without a runner ID', { runnerId: null }, 'token_wrong_kind'],
  ] as const)('that is %s is refused', async (_, changes, reason) => {
    expect(await appraise('runner', changes)).toMatchObject({ ok: false, error: { reason } })
  })

  test('that has a second to live is accepted', async () => {
    expect((await appraise('runner', { expiresAt: epochSeconds(now + 1) })).ok).toBe(true)
  })

  test('of the other kind is refused without a look-up', async () => {
    const { token, find, lookups } = await minted('bootstrap')
    expect(await runnerToken(find).appraise({ token }, appraisal)).toMatchObject({
      error: { reason: 'token_wrong_kind' },
    })
    expect(lookups).toEqual([])
  })

  test('is refused as a bootstrap token without a look-up', async () => {
    const { token, find, lookups } = await minted('runner')
    expect(await bootstrapToken(find).appraise({ token }, appraisal)).toMatchObject({
      error: { reason: 'token_wrong_kind' },
    })
    expect(lookups).toEqual([])
  })
})
