// Tests what `muster explain` says of an event beside the event itself.
import { afterAll, expect, test } from 'vitest'
import { withDatabases } from '../../src/cli/store/database.ts'
import { systemClock, toEpochSeconds } from '../../src/protocol/time.ts'
import { uuidv7 } from '../../src/protocol/uuid.ts'
import { insertBan } from '../../src/worker/store/bans.ts'
import { type EventRow, event } from '../../src/worker/store/events.ts'
import { startEdge } from '../end-to-end/edge.ts'
import { runMuster } from '../end-to-end/muster.ts'

// A command without one would start workerd itself.
const edge = await startEdge()
afterAll(() => edge.stop())
const options = { persistTo: edge.persistTo, trust: 'trust.yaml' }
const now = toEpochSeconds(systemClock())
const ROLE = 'arn:aws:sts::123456789012:assumed-role/runner'

/** Stores the event of a refusal; gives its request id. */
async function refused(row: Partial<EventRow> & { reason: string }): Promise<string> {
  const id = uuidv7(systemClock())
  const facts = { mode: null, tenant: null, source: null, identity: null, runnerId: null, enrollmentId: null }
  const rest = { serial: null, spiffeId: null, instanceId: null, colo: null, detail: null, claimed: null }
  await withDatabases(options, ({ all: [db] }) =>
    db.insert(event).values({ id, time: now, outcome: 'refused', proven: true, ...facts, ...rest, ...row }),
  )
  return id
}

const explain = (id: string, ...more: string[]) => edge.muster('explain', id, ...more)

test('a ban that was met is named, though the ban names the role and the event its session', async () => {
  await withDatabases(options, ({ all: [db] }) =>
    insertBan(db, { kind: 'identity', value: ROLE, note: null, createdAt: now }),
  )
  const id = await refused({ reason: 'banned', tenant: 'acme', identity: `${ROLE}/i-1` })
  expect((await explain(id)).stdout).toContain(`It is the ban of identity ${ROLE}.`)
  expect(JSON.parse((await explain(id, '--json')).stdout).ban).toEqual({ kind: 'identity', value: ROLE })
  const lifted = await refused({ reason: 'banned', tenant: 'acme', identity: 'someone' })
  expect((await explain(lifted)).stdout).not.toContain('It is the ban')
})

test('a trust file that cannot be read is no reason to explain nothing', async () => {
  const id = await refused({ reason: 'aws_region', claimed: { region: 'eu-west-1' } })
  const { code, stdout } = await runMuster([
    'explain',
    id,
    '--persist-to',
    edge.persistTo,
    '--trust',
    `${edge.persistTo}/none.yaml`,
  ])
  expect(code).toBe(0)
  expect(stdout).toContain('region (claimed) eu-west-1')
  expect(stdout).toMatch(/\nwhat the trust file asks for is not known: the trust file \S+none\.yaml does not exist;/)
})
