// `muster trust check` as the deploy check of reserved runner IDs; and bans that would ban nobody.
import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { withDatabase } from '../../src/cli/database.ts'
import { systemClock, toEpochSeconds } from '../../src/protocol/time.ts'
import { uuidv7 } from '../../src/protocol/uuid.ts'
import { insertToken, revokeToken } from '../../src/worker/store/tokens.ts'
import { runMuster } from './edge.ts'

const folder = mkdtempSync(join(tmpdir(), 'muster-reserved-'))
const state = join(folder, 'state')
const file = (name: string, text: string): string => {
  writeFileSync(join(folder, name), text)
  return join(folder, name)
}

test('a live runner token with a slash in its ID fails the check once clusters are registered', async () => {
  const trust = file('clusters.yaml', 'clusters: [{name: a, issuer: "https://a.example.com"}]')
  const check = () => runMuster(['trust', 'check', '--trust', trust, '--persist-to', state])
  expect((await check()).code).toBe(0)
  const now = toEpochSeconds(systemClock())
  const id = uuidv7(systemClock())
  const row = { id, hash: 'h', kind: 'runner', tenant: 'default', runnerId: 'a/node', createdAt: now } as const
  await withDatabase({ persistTo: state, trust }, (db) => insertToken(db, row))
  const refused = await check()
  expect([refused.code, refused.stderr]).toEqual([1, expect.stringMatching(/^.*:1:1: .*"a\/node".*revoke.*\n$/)])
  expect((await runMuster(['trust', 'check', '--trust', file('none.yaml', '{}'), '--persist-to', state])).code).toBe(0)
  await withDatabase({ persistTo: state, trust }, (db) => revokeToken(db, id, now))
  expect((await check()).code).toBe(0)
})

test('a tenant that is nowhere is not banned; with a trust file that does not load it is', async () => {
  const ban = (trust: string) => runMuster(['ban', '--tenant', 'nope', '--trust', trust, '--persist-to', state])
  const refused = await ban(file('right.yaml', '{}'))
  expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining('"nope" is not in')])
  const banned = await ban(file('broken.yaml', 'x: ['))
  expect(banned).toMatchObject({ code: 0, stderr: '' })
  expect(banned.stdout).toContain('banned tenant nope: 0 live runners; the ban stands for later ones\n')
  // It is a ban like any other by now.
  expect((await ban(join(folder, 'right.yaml'))).code).toBe(0)
})
