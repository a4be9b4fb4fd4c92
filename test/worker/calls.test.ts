// Tests the recorder of calls, which the counted figures and the bench rest on: nothing that is asked of D1 passes it by.
import { env } from 'cloudflare:test'
import { expect, test } from 'vitest'
import type { Env } from '../../src/worker/env.ts'
import { countsOf } from './call-counts.ts'
import { CallRecorder } from './calls.ts'

test('the database of each shard is recorded, each statement and each batch as one call', async () => {
  const recorder = new CallRecorder()
  const wrapped = recorder.bindings<Env>({ ...env, DB_1: env.SHARD_1 } as never)
  for (const database of [wrapped.DB, wrapped.DB_1]) {
    const one = database?.prepare('SELECT ? AS one').bind(1)
    if (database === undefined || one === undefined) throw new Error('a shard has no database')
    expect(await one.first('one')).toBe(1)
    expect((await one.all()).results).toEqual([{ one: 1 }])
    expect((await one.run()).success).toBe(true)
    expect(await one.raw()).toEqual([[1]])
    expect(await database.batch([one, one])).toHaveLength(2)
  }
  recorder.answered()
  const { calls, waited, statements } = countsOf(await recorder.take()).d1
  expect({ calls, waited, statements }).toEqual({ calls: 10, waited: 10, statements: 12 })
})

test.each(['exec', 'dump', 'withSession'] as const)('%s of D1, which is not recorded, is refused', (name) => {
  const { DB } = new CallRecorder().bindings<Env>(env as never)
  expect(() => DB[name]).toThrow(`${name} of D1 is not recorded`)
})
