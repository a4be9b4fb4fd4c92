// Cloudflare's REST API on loopback, as far as D1 goes: statements run on a real SQLite with the project's migrations.
// Node only.

import { readdirSync, readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { DatabaseSync, type SQLInputValue } from 'node:sqlite'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { closeServer, listen } from '../../src/node/server.ts'

const MIGRATIONS = fileURLToPath(new URL('../../migrations/', import.meta.url))

export interface FakeApi {
  /** For CLOUDFLARE_API_BASE_URL. */
  readonly url: string
  readonly token: string
  readonly account: string
  readonly database: string
  /** Those of further shards. */
  readonly otherDatabases: readonly [string, string]
  /** Ids of databases that fail. */
  readonly away: Set<string>
  /** The accounts of the login; one at first. */
  readonly accounts: { id: string; name: string }[]
  /** Bodies of the statements that came. */
  readonly statements: { readonly sql: string; readonly params: readonly unknown[] }[]
  /** Runs a statement on these databases behind the API. */
  readonly run: (ids: readonly string[], sql: string) => void
  readonly close: () => Promise<void>
}

export async function serveCloudflareApi(): Promise<FakeApi> {
  const [token, account, database] = ['a-token', 'a'.repeat(32), '11111111-2222-4333-8444-555555555555']
  const accounts = [{ id: account, name: 'Acme' }]
  const statements: FakeApi['statements'][number][] = []
  const otherDatabases = [database.replace(/^1/, '2'), database.replace(/^1/, '3')] as const
  const away = new Set<string>()
  const opened = new Map([database, ...otherDatabases].map((id) => [id, new DatabaseSync(':memory:')]))
  for (const sqlite of opened.values())
    for (const name of readdirSync(MIGRATIONS).sort()) sqlite.exec(readFileSync(`${MIGRATIONS}${name}`, 'utf8'))

  const answer = (method: string, path: string, body: string): [status: number, result: unknown] => {
    if (method === 'GET' && path === '/client/v4/accounts') return [200, accounts]
    const [, at, id] = path.match(/^\/client\/v4\/accounts\/(\w+)\/d1\/database\/([\w-]+)\/raw$/) ?? []
    if (method !== 'POST' || at === undefined) return [501, refusal(7003, 'the fake does not know this route')]
    const sqlite = opened.get(id ?? '')
    if (at !== account || id === undefined || sqlite === undefined)
      return [404, refusal(7404, `The database ${id} could not be found`)]
    const { sql, params } = JSON.parse(body)
    if (away.has(id)) return [500, refusal(7500, 'the database is away')]
    statements.push({ sql, params })
    try {
      return [200, [{ success: true, meta: {}, results: run(sqlite, sql, params) }]]
    } catch (error) {
      return [400, refusal(7500, `${(error as Error).message}: SQLITE_ERROR`)]
    }
  }
  const server = createServer(async (request, response) => {
    const body = await text(request)
    const [status, result] =
      request.headers.authorization === `Bearer ${token}`
        ? answer(request.method ?? '', request.url ?? '', body)
        : [403, refusal(10000, 'Authentication error')]
    const failed = result instanceof Refusal
    const envelope = failed
      ? { success: false, errors: [{ code: result.code, message: result.message }], messages: [], result: null }
      : { success: true, errors: [], messages: [], result }
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(envelope))
  })
  const port = await listen(server, 0, '127.0.0.1')
  return {
    url: `http://127.0.0.1:${port}/client/v4`,
    token,
    account,
    database,
    otherDatabases,
    away,
    accounts,
    statements,
    run: (ids, sql) => {
      for (const id of ids) opened.get(id)?.exec(sql)
    },
    close: async () => {
      await closeServer(server)
      for (const sqlite of opened.values()) sqlite.close()
    },
  }
}

class Refusal {
  readonly code: number
  readonly message: string
  constructor(code: number, message: string) {
    this.code = code
    this.message = message
  }
}
const refusal = (code: number, message: string) => new Refusal(code, message)

function run(sqlite: DatabaseSync, sql: string, params: SQLInputValue[]): { columns: string[]; rows: unknown } {
  const statement = sqlite.prepare(sql)
  statement.setReturnArrays(true)
  return { columns: statement.columns().map(({ name }) => name), rows: statement.all(...params) }
}
