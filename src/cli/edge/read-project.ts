// Prints wrangler.toml as wrangler reads it. Runs as a process of its own: wrangler takes a second to load and 150 MB.

import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { unstable_getMiniflareWorkerOptions, unstable_readConfig, unstable_splitSqlQuery } from 'wrangler'
import { PROJECT, type Project } from './project.ts'

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
const database = config.d1_databases.find(({ binding }: { binding: string }) => binding === 'DB')
const folder = join(PROJECT, database?.migrations_dir ?? 'migrations')

const project: Project = {
  crons: config.triggers.crons ?? [],
  migrations: readdirSync(folder)
    .filter((name) => name.endsWith('.sql'))
    .sort()
    .map((name) => ({ name, statements: unstable_splitSqlQuery(readFileSync(join(folder, name), 'utf8')) })),
  variables: config.vars as Project['variables'],
  worker: { ...worker, modules: [], name: config.name ?? 'muster' },
  deployed: {
    accountId: config.account_id ?? null,
    databaseName: database?.database_name ?? null,
    databaseId: database?.database_id ?? null,
  },
}
process.stdout.write(JSON.stringify(project))
