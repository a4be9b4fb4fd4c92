// Tests `muster ban`, `unban` and `bans`: whom they name, and the refusal of bans that can match nothing.
import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { withDatabases } from '../../src/cli/store/database.ts'
import { addSeconds, minutes, seconds, subtractSeconds, systemClock, toEpochSeconds } from '../../src/protocol/time.ts'
import { uuidv7 } from '../../src/protocol/uuid.ts'
import { insertProvisioned, updateEnded } from '../../src/worker/store/enrollments.ts'
import { type RunningEdge, startEdge } from '../end-to-end/edge.ts'
import { runMuster } from '../end-to-end/muster.ts'

const ROLE = 'arn:aws:sts::123456789012:assumed-role/runner'
const now = toEpochSeconds(systemClock())

let edge: RunningEdge
beforeAll(async () => {
  edge = await startEdge()
})
afterAll(() => edge.stop())

const database = <T>(work: Parameters<typeof withDatabases<T>>[1]) =>
  withDatabases({ persistTo: edge.persistTo, trust: 'trust.yaml' }, work)

/** Records an enrollment; gives its id. */
async function enrolled(row: { identity?: string; tenant?: string; notAfter?: typeof now } = {}): Promise<string> {
  const enrollmentId = uuidv7(systemClock())
  await database(({ all: [db] }) =>
    insertProvisioned(db, {
      enrollmentId,
      mode: 'aws-sts',
      source: '123456789012',
      tenant: 'acme',
      identity: `${ROLE}/i-1`,
      runnerId: null,
      tokenId: null,
      instanceId: null,
      enrolledAt: now,
      publicKeyHash: enrollmentId,
      serial: enrollmentId,
      trustDomain: 'rootpilot',
      claims: { mode: 'provisioned', tenant: 'acme' },
      notBefore: now,
      notAfter: addSeconds(now, minutes(15)),
      issuer: 'k',
      seenAt: now,
      liveUntil: row.notAfter ?? addSeconds(now, minutes(15)),
      ...row,
    }),
  )
  return enrollmentId
}

const refusal = async (...words: string[]): Promise<string> => {
  const { code, stdout, stderr } = await edge.muster(...words)
  expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
  expect(stderr).toMatch(/^muster: [^\n]+\n$/)
  return stderr
}
const said = async (...words: string[]): Promise<string> => {
  const { code, stdout, stderr } = await edge.muster(...words)
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  return stdout
}

test('ban, bans and unban say how many live enrollments they name', async () => {
  for (const session of ['i-1', 'i-2', 'i-3']) await enrolled({ identity: `${ROLE}/${session}` })
  await enrolled({ identity: `${ROLE}/i-4`, notAfter: subtractSeconds(now, seconds(86_400)) })
  const role = 'arn:aws:iam::123456789012:role/ops/runner'
  expect(await said('ban', '--identity', role, '--note', 'lost')).toMatch(
    RegExp(`^banned identity ${ROLE}: 3 live enrollments now\n`),
  )
  await said('ban', '--identity', `${ROLE}/i-2`)
  await said('ban', '--runner-id', 'build-7')
  const listed = await said('bans')
  expect(listed.split('\n').map((line) => line.split(/ {2,}/).slice(2, 4))).toEqual([
    ['VALUE', 'LIVE ENROLLMENTS'],
    [ROLE, '3'],
    [`${ROLE}/i-2`, '1'],
    ['build-7', '0'],
    [],
  ])
  expect(JSON.parse(await said('bans', '--json'))[0]).toMatchObject({ kind: 'identity', value: ROLE, runners: 3 })
  // The trust file maps nobody: said only where no live enrollment shows that it is spelt well.
  expect(await said('ban', '--identity', `${ROLE}/i-2`)).not.toContain('maps nobody')
  expect(await said('ban', '--identity', 'arn:aws:iam::123456789012:role/Runner')).toContain(
    'maps nobody whom it names',
  )
  expect(await said('unban', '--identity', role)).toContain(`lifted the ban of identity ${ROLE}: 3 live enrollments;`)
  await refusal('unban', '--identity', role)
})

test.each([
  [['--runner-id', 'lab/ip-10-0-1-5.ec2.internal'], 'write lab/ip-10-0-1-5_ec2_internal'],
  [['--runner-id', 'lab/ip-10-0-1-5_ec2_internal'], 'names no cluster of the trust file'],
  [['--runner-id', ''], '1 to 128 of'],
  [['--identity', 'acme/sa'], 'system:serviceaccount:acme:sa'],
  [['--identity', 'arn:aws:iam::123456789012:role/*'], 'there are no patterns'],
  [['--identity', 'spiffe://rootpilot/tenant/acme/runner'], '--tenant acme'],
  [['--token', `muster_bt_${'A'.repeat(43)}`], 'is a token itself'],
  [['--token', 'x'], 'it looks like'],
  [['--tenant', 'nobody'], 'there is acme, default'],
  [['--enrollment', 'x'], 'it looks like'],
])('a ban that can match nothing is refused with what to write instead: %j', async (words, advice) => {
  const line = await refusal('ban', ...words)
  expect(line).toContain(advice)
  expect(line).not.toContain('AAAA')
  expect(await said('bans', '--json')).not.toContain(`"${words[1]}"`)
})

test('a ban of an enrollment or a token that is over is refused, and one that lives is not', async () => {
  const id = await enrolled()
  expect(await said('ban', '--enrollment', id.toUpperCase())).toContain(
    `banned enrollment ${id}: 1 live enrollment now`,
  )
  const ended = await enrolled()
  await database(({ all: [db] }) => updateEnded(db, [ended], 'clone_suspected', now))
  expect(await refusal('ban', '--enrollment', ended)).toMatch(/has ended, .*: ban --identity "arn:aws:sts::/)

  const token = JSON.parse(await said('token', 'mint', '--tenant', 'acme', '--json')).id
  expect(await said('ban', '--token', token)).toContain('0 live enrollments now; it applies to later ones')
  await said('token', 'revoke', token)
  // One that stands may be written again, with another note.
  await said('ban', '--token', token, '--note', 'again')
  await said('unban', '--token', token)
  expect(await refusal('ban', '--token', token)).toContain('is revoked and has no live enrollment')
})

test('a tenant that the trust file lacks is banned while it has live enrollments', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'muster-bans-'))
  const trust = join(folder, 'trust.yaml')
  writeFileSync(trust, 'tenants: [{ slug: left }]')
  await enrolled({ tenant: 'former' })
  const ban = (tenant: string) =>
    runMuster(['ban', '--tenant', tenant, '--trust', trust, '--persist-to', edge.persistTo])
  expect(await ban('former')).toMatchObject({ code: 0, stderr: '' })
  expect(await ban('formr')).toMatchObject({ code: 1, stderr: expect.stringContaining('there is left, default') })
})
