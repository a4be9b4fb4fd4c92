// Tests what is written after the answers: at once, together, and by whom.
import { env } from 'cloudflare:test'
import { afterEach, expect, test, vi } from 'vitest'
import { epochMilliseconds, epochSeconds } from '../../../src/protocol/time.ts'
import { uuidv7 } from '../../../src/protocol/uuid.ts'
import { findEnrollment } from '../../../src/worker/store/enrollments.ts'
import { type EventRow, findEvent } from '../../../src/worker/store/events.ts'
import { makeJournal } from '../../../src/worker/store/journal.ts'
import { recordEnrollment } from './enrollment-rows.ts'
import { openDatabase } from './open-database.ts'

const db = openDatabase(env.DB)
const NOW = epochSeconds(1_950_000_000)

const eventRow = (changes: Partial<EventRow> = {}): EventRow => ({
  id: uuidv7(epochMilliseconds(NOW * 1000)),
  time: NOW,
  outcome: 'enrolled',
  reason: null,
  proven: true,
  mode: 'kubernetes',
  tenant: 'acme',
  source: 'prod',
  identity: 'i',
  runnerId: null,
  enrollmentId: null,
  serial: null,
  spiffeId: null,
  instanceId: 'a "label" of \\ any kind',
  colo: null,
  detail: null,
  claimed: { token: 'x', aud: '{"a":1}' },
  ...changes,
})

/** A journal by a clock, what its requests go on with, and the number of its calls to D1. */
function journal() {
  const state = { now: 0 }
  const batch = vi.spyOn(env.DB, 'batch')
  const work: Promise<unknown>[] = []
  const { write } = makeJournal(env.DB, () => epochMilliseconds(state.now))
  return {
    state,
    batch,
    work,
    write: (event: EventRow, signed: Parameters<typeof write>[0]['signed'] = null) =>
      write({ event, signed }, (one) => work.push(one)),
  }
}

afterEach(() => {
  vi.restoreAllMocks()
})

test('an event is stored as it is, in any of its columns', async () => {
  const { write, work } = journal()
  const rows = [eventRow(), eventRow({ proven: false, claimed: null, reason: 'runner_id_shared' })]
  for (const row of rows) write(row)
  await Promise.all(work)
  for (const row of rows) expect(await findEvent(db, row.id)).toEqual(row)
})

test('one alone is written at once; those that come meanwhile are written together, by the first of their requests', async () => {
  const { write, work, batch } = journal()
  for (let i = 0; i < 31; i++) write(eventRow())
  expect(batch).toHaveBeenCalledTimes(1)
  expect(work).toHaveLength(1)
  await Promise.all(work)
  expect(batch).toHaveBeenCalledTimes(2)
})

test('a request does not go on writing for others for ever', async () => {
  const { write, work, state } = journal()
  write(eventRow())
  state.now = 5001
  const last = eventRow()
  write(last)
  expect(work).toHaveLength(2)
  await work[1]
  expect(await findEvent(db, last.id)).not.toBeNull()
})

test('10,000 events wait at most, so that a slow D1 fills no memory; once it is back all of them are written', async () => {
  const { write, work, batch } = journal()
  const { promise: back, resolve: comeBack } = Promise.withResolvers<void>()
  const written: number[] = []
  vi.spyOn(env.DB, 'prepare').mockReturnValue({
    bind: (json: string) => written.push(JSON.parse(json).length),
  } as unknown as D1PreparedStatement)
  batch.mockImplementation(async () => {
    await back
    return []
  })
  for (let i = 0; i < 10_003; i++) write(eventRow())
  comeBack()
  await Promise.all(work)
  expect(written.reduce((sum, count) => sum + count)).toBe(10_001)
})

test('a signature is kept once', async () => {
  const { write, work } = journal()
  const enrollmentId = await recordEnrollment(NOW)
  for (const signature of ['first', 'second']) write(eventRow(), { enrollmentId, signature })
  await Promise.all(work)
  expect((await findEnrollment(db, enrollmentId))?.signature).toBe('first')
})

test('an event that cannot be stored takes no other with it', async () => {
  const { write, work } = journal()
  const [good, twice, alsoGood] = [eventRow(), eventRow(), eventRow()]
  for (const row of [eventRow(), good, twice, twice, alsoGood]) write(row)
  await Promise.all(work)
  for (const row of [good, twice, alsoGood]) expect(await findEvent(db, row.id)).toEqual(row)
})
