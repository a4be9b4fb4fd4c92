// Tests which enrollments of the table a ban names: the same that the check of a request refuses.
import { env } from 'cloudflare:test'
import { expect, test } from 'vitest'
import { epochSeconds } from '../../../src/protocol/time.ts'
import { type Ban, findBan, parseBan } from '../../../src/trust/bans.ts'
import {
  countNamed,
  enrollmentsToCut,
  insertBan,
  markCut,
  requestDrain,
  unsweptBans,
} from '../../../src/worker/store/bans.ts'
import { recordEnrollment } from './enrollment-rows.ts'
import { openDatabase } from './open-database.ts'

const db = openDatabase(env.DB)
// Later than anything that other files leave in the table.
const NOW = epochSeconds(2_500_000_000)

/** IAM allows `_` in names, which LIKE would take for any character. */
const IDENTITIES = [
  'arn:aws:sts::111122223333:assumed-role/ci_runner/i-1',
  'arn:aws:sts::111122223333:assumed-role/ci_runner/i-2',
  'arn:aws:sts::111122223333:assumed-role/ci-runner/i-1',
  'arn:aws:sts::111122223333:assumed-role/ci_runner-2/i-1',
  'arn:aws:sts::444455556666:assumed-role/ci_runner/i-1',
  'arn:aws:iam::111122223333:user/ci_runner',
  'arn:aws:iam::111122223333:user/team/a/ci_runner',
  'arn:aws:iam::111122223333:user/team/not_ci_runner',
  'system:serviceaccount:runners:runner',
] as const

const rows = await Promise.all(
  IDENTITIES.map(async (identity) => {
    const account = identity.split(':')[4]
    const isPod = identity.startsWith('system')
    const id = await recordEnrollment(NOW, {
      mode: isPod ? 'kubernetes' : 'aws-sts',
      source: isPod ? 'lab' : (account ?? ''),
      identity,
    })
    return { id, identity }
  }),
)

test.each([
  ['a role', 'arn:aws:iam::111122223333:role/path/ci_runner', 2],
  ['a role as STS spells it', 'arn:aws:sts::111122223333:assumed-role/ci_runner', 2],
  ['a session', 'arn:aws:sts::111122223333:assumed-role/ci_runner/i-1', 1],
  ['a user', 'arn:aws:iam::111122223333:user/ci_runner', 2],
  ['a user of some path', 'arn:aws:iam::111122223333:user/other/ci_runner', 2],
  ['an account', '111122223333', 7],
  ['a ServiceAccount', 'system:serviceaccount:runners:runner', 1],
  ['a role that nobody has', 'arn:aws:iam::111122223333:role/runner', 0],
])(
  'a ban of %s names the live enrollments that are refused, for the sweep and for a drain, too',
  async (_, text, n) => {
    const parsed = parseBan('identity', text, null)
    if (!parsed.ok) throw new Error(parsed.error)
    const ban: Ban = parsed.value
    const refused = rows.filter(({ identity }) => {
      const subject = { enrollmentId: null, runnerId: null, identity, tokenId: null, tenant: 'acme' }
      return findBan({ at: NOW, bans: [ban], revokedTokens: [] }, subject) !== null
    })
    expect(refused).toHaveLength(n)
    expect(await countNamed(db, ban, NOW)).toBe(n)
    await insertBan(db, { ...ban, note: null, createdAt: NOW })
    const row = (await unsweptBans(db, 100)).find(({ value }) => value === ban.value)
    if (row === undefined) throw new Error('no ban')
    const ids = refused.map(({ id }) => id).sort()
    expect((await enrollmentsToCut(db, row, NOW, 100)).sort()).toEqual(ids)
    expect((await requestDrain(db, ban, NOW)).sort()).toEqual(ids)
  },
)

test('those that were never checked are checked before any is checked once more', async () => {
  const ban = { kind: 'tenant', value: 'acme' } as const
  await insertBan(db, { ...ban, note: null, createdAt: NOW })
  const row = (await unsweptBans(db, 100)).find(({ value }) => value === ban.value)
  if (row === undefined) throw new Error('no ban')
  const all = await enrollmentsToCut(db, row, NOW, 100)
  const first = await enrollmentsToCut(db, row, NOW, 4)
  await markCut(db, first, NOW)
  const next = await enrollmentsToCut(db, row, NOW, all.length - 4)
  expect(next.sort()).toEqual(all.filter((id) => !first.includes(id)).sort())
})
