// Tests the ban list that an isolate keeps: how old it gets, with and without the database, and when the clock jumps.
import { expect, test } from 'vitest'
import { type EpochSeconds, epochMilliseconds } from '../../../src/protocol/time.ts'
import { NO_BANS } from '../../../src/trust/bans.ts'
import { keepBanList } from '../../../src/worker/store/ban-cache.ts'

function cache() {
  const state = { now: 1_800_000_000, loads: 0, away: false }
  const load = async (at: EpochSeconds) => {
    state.loads++
    if (state.away) throw new Error('D1_ERROR: away')
    return { ...NO_BANS, at }
  }
  const behind: Promise<unknown>[] = []
  const banList = keepBanList(load, () => epochMilliseconds(state.now * 1000))
  return { state, behind, list: () => banList((work) => behind.push(work)) }
}

test('a list serves for 30 seconds', async () => {
  const { state, list, behind } = cache()
  await list()
  state.now += 20
  await list()
  expect([state.loads, behind.length]).toEqual([1, 0])
  state.now += 11
  await list()
  expect([state.loads, behind.length]).toEqual([2, 0])
})

test('while requests come a list is read anew behind their answers, once for all of them', async () => {
  const { state, list, behind } = cache()
  await list()
  state.now += 21
  await Promise.all([list(), list(), list()])
  expect(behind).toHaveLength(1)
  await Promise.all(behind)
  state.now += 20
  await list()
  expect([state.loads, behind.length]).toEqual([2, 1])
})

test('a cold isolate reads the list for each of its first requests, since none waits for another', async () => {
  const { list } = cache()
  expect((await Promise.all([list(), list()])).every(({ ok }) => ok)).toBe(true)
})

test('while the database is away an old one serves for 15 minutes, asked for every 5 seconds', async () => {
  const { state, list } = cache()
  await list()
  state.away = true
  state.now += 900
  expect((await list()).ok).toBe(true)
  state.now += 1
  expect(await list()).toMatchObject({ ok: false, error: { reason: 'storage_unavailable' } })
  expect(state.loads).toBe(2)
  state.now += 6
  await list()
  expect(state.loads).toBe(3)
})

test('a clock that was set back makes no list live longer', async () => {
  const { state, list } = cache()
  await list()
  state.now -= 3600
  await list()
  expect(state.loads).toBe(2)
})

test('nor does it keep from asking a database that is back', async () => {
  const { state, list } = cache()
  state.away = true
  await list()
  state.away = false
  state.now -= 3600
  expect((await list()).ok).toBe(true)
})
