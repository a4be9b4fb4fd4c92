// Prints wrangler.toml as wrangler reads it. Runs as a process of its own: wrangler takes a second to load and 150 MB.

import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { unstable_getMiniflareWorkerOptions, unstable_readConfig, unstable_splitSqlQuery } from 'wrangler'
import { bindingOf, shardsOf } from '../../trust/shards.ts'
import { PROJECT, type Project, type ShardDatabase } from './project.ts'

const environment = process.argv[2]
const file = { config: join(PROJECT, 'wrangler.toml') }
const top = unstable_readConfig(file)
if (environment !== undefined && !top.definedEnvironments?.includes(environment)) {
  throw new Error(`there is no environment ${JSON.stringify(environment)}`)
}
const config = environment === undefined ? top : unstable_readConfig({ ...file, env: environment })
// A VPC service is reached through Cloudflare only.
const {
  vpcServices: _,
  vpcNetworks: __,
  ...worker
} = unstable_getMiniflareWorkerOptions(config, environment).workerOptions
type Bound = {
  readonly binding: string
  readonly database_name?: string
  readonly database_id?: string
  readonly migrations_dir?: string
}
const bound = new Map<string, Bound>(config.d1_databases.map((database: Bound) => [database.binding, database]))
// Without a binding there is a shard 0 all the same: what is missing is said where it is used.
const databases = [...new Set([0, ...shardsOf([...bound.keys()])])].map((shard): ShardDatabase => {
  const { database_name: name = null, database_id: id = null } = bound.get(bindingOf(shard)) ?? {}
  const twin = [...bound.values()].find(
    ({ binding, database_id }) => binding !== bindingOf(shard) && database_id === id,
  )
  if (id !== null && twin !== undefined) {
    throw new Error(`${bindingOf(shard)} and ${twin.binding} have one database_id: each needs a database of its own`)
  }
  return { shard, name, id }
})
const folder = join(PROJECT, bound.get(bindingOf(0))?.migrations_dir ?? 'migrations')

const project: Project = {
  crons: config.triggers.crons ?? [],
  migrations: readdirSync(folder)
    .filter((name) => name.endsWith('.sql'))
    .sort()
    .map((name) => ({ name, statements: unstable_splitSqlQuery(readFileSync(join(folder, name), 'utf8')) })),
  variables: config.vars as Project['variables'],
  worker: { ...worker, modules: [], name: config.name ?? 'muster' },
  accountId: config.account_id ?? null,
  databases,
}
process.stdout.write(JSON.stringify(project))
