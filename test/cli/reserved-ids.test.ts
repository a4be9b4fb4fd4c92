// Tests `muster trust check` for reserved runner IDs, and the refusal of bans that match no runner.
import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { withDatabases } from '../../src/cli/store/database.ts'
import { systemClock, toEpochSeconds } from '../../src/protocol/time.ts'
import { uuidv7 } from '../../src/protocol/uuid.ts'
import { insertToken, revokeToken } from '../../src/worker/store/tokens.ts'
import { type RunningEdge, startEdge } from '../end-to-end/edge.ts'
import { runMuster } from '../end-to-end/muster.ts'

const folder = mkdtempSync(join(tmpdir(), 'muster-reserved-'))
const file = (name: string, text: string): string => {
  writeFileSync(join(folder, name), text)
  return join(folder, name)
}

let edge: RunningEdge
beforeAll(async () => {
  edge = await startEdge()
})
afterAll(() => edge.stop())
const muster = (trust: string, ...words: string[]) =>
  runMuster([...words, '--trust', trust, '--persist-to', edge.persistTo])

test('a live runner token with a slash in its ID fails the check once clusters are registered', async () => {
  const trust = file('clusters.yaml', 'clusters: [{name: a, issuer: "https://a.example.com"}]')
  const check = () => muster(trust, 'trust', 'check')
  expect((await check()).code).toBe(0)
  const now = toEpochSeconds(systemClock())
  const id = uuidv7(systemClock())
  const row = { id, hash: 'h', kind: 'runner', tenant: 'default', runnerId: 'a/node', createdAt: now } as const
  const { persistTo } = edge
  await withDatabases({ persistTo, trust }, ({ all: [db] }) => insertToken(db, row))
  const refused = await check()
  expect([refused.code, refused.stderr]).toEqual([1, expect.stringMatching(/^.*:1:1: .*"a\/node".*revoke.*\n$/)])
  expect((await muster(file('none.yaml', '{}'), 'trust', 'check')).code).toBe(0)
  await withDatabases({ persistTo, trust }, ({ all: [db] }) => revokeToken(db, id, now))
  expect((await check()).code).toBe(0)
})

test('a tenant that is nowhere is not banned; with a trust file that does not load it is', async () => {
  const refused = await muster(file('right.yaml', '{}'), 'ban', '--tenant', 'nope')
  expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining('"nope" is no tenant of the trust file')])
  expect((await muster(file('broken.yaml', 'x: ['), 'ban', '--tenant', 'nope')).code).toBe(0)
})
