// Runs statements on the deployed D1 over Cloudflare's REST API, the values as parameters beside the statement.

import * as v from 'valibot'
import { bindingOf } from '../../trust/shards.ts'
import type { Execute } from '../../worker/store/proxy.ts'
import type { Project } from '../edge/project.ts'
import type { Query } from '../edge/runtime.ts'
import { CommandError } from '../operator/command.ts'
import { callApi, type Login, readLogin } from './cloudflare-api.ts'

/** The databases that wrangler.toml binds. */
export async function openRemote({ databases, accountId }: Project): Promise<Query> {
  const ids = new Map(databases.map(({ shard, id }) => [shard, deployedId(shard, id)]))
  const login = await readLogin()
  const account = process.env.CLOUDFLARE_ACCOUNT_ID ?? accountId ?? (await onlyAccount(login))
  return (shard, sql, params) => queryD1(login, account, ids.get(shard) ?? '')(sql, params)
}

function deployedId(shard: number, id: string | null): string {
  if (id !== null && !/^[0-]*$/.test(id)) return id
  const [which, name] = shard === 0 ? ['', 'muster'] : [` for ${bindingOf(shard)}`, `muster-${shard}`]
  throw new CommandError(
    `wrangler.toml names no deployed database${which}: set database_id to what \`npx wrangler d1 create ${name}\` prints`,
  )
}

/** The login's account, where it has one alone. */
async function onlyAccount(login: Login): Promise<string> {
  const listed = await callApi(login, '/accounts', ACCOUNTS)
  if (!listed.ok)
    throw new CommandError(`Cloudflare does not list the login's accounts (${listed.error.text}): ${NAME_ONE}`)
  const [account, ...others] = listed.value
  if (account === undefined || others.length > 0) {
    throw new CommandError(`the login has ${account === undefined ? 'no account' : 'several accounts'}: ${NAME_ONE}`)
  }
  return account.id
}

const ACCOUNTS = v.array(v.object({ id: v.string() }))
const NAME_ONE = 'set account_id in wrangler.toml, or CLOUDFLARE_ACCOUNT_ID'

/** Of `/raw`: `/query` loses columns of equal names. */
const ANSWERS = v.looseTuple([v.object({ results: v.object({ rows: v.array(v.array(v.unknown())) }) })])

export function queryD1(login: Login, account: string, database: string): Execute {
  return async (sql, params) => {
    const answer = await callApi(login, `/accounts/${account}/d1/database/${database}/raw`, ANSWERS, { sql, params })
    if (answer.ok) return answer.value[0].results.rows
    const { status, text } = answer.error
    if (status !== 404) throw new Error(text)
    throw new CommandError(
      `Cloudflare finds no database ${database} in account ${account} (${text}): see database_id and account_id in wrangler.toml`,
    )
  }
}
