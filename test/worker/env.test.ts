// Tests how the shards of an environment are opened.
import { expect, test } from 'vitest'
import type { Env } from '../../src/worker/env.ts'
import { shardsOfEnv } from '../../src/worker/env.ts'
import { trustWith } from '../fakes/trust.ts'

/** As a D1Database: they are told apart alone. */
const env = Object.fromEntries(
  Array.from({ length: 16 }, (_, i) => [i === 0 ? 'DB' : `DB_${i}`, { i }]),
) as unknown as Env

test('each shard is opened with its own tenants', () => {
  const trust = trustWith({
    tenants: ['default', 'acme', 'globex', 'initech'],
    shards: [
      { tenant: 'globex', shard: 1 },
      { tenant: 'initech', shard: 15 },
    ],
  })
  const { all, of } = shardsOfEnv(env, trust, (database, tenants) => ({ database, tenants }))
  expect(all.map(({ tenants }) => tenants.join())).toEqual([
    'default,acme',
    'globex',
    ...Array.from({ length: 13 }, () => ''),
    'initech',
  ])
  expect(of('initech')).toMatchObject({ database: { i: 15 } })
  expect([of('nobody'), of(null)]).toEqual([of('acme'), of('acme')])
})

test('thousands of tenants are not looked for one by one: a new isolate would take seconds', () => {
  let read = 0
  const tenants = Array.from({ length: 4000 }, (_, i) => `tenant-${i}`)
  const shards = tenants.map((tenant, i) => ({
    get tenant() {
      read++
      return tenant
    },
    shard: i % 16,
  }))
  const { of } = shardsOfEnv(env, trustWith({ tenants, shards }), (_, mine) => mine)
  expect(of('tenant-17')).toContain('tenant-3985')
  expect(read).toBeLessThan(10 * tenants.length)
})
