// Entry file of the floor Worker: makes the calls that the real one was seen to make, on fixed bytes, and nothing else.

import { DurableObject } from 'cloudflare:workers'
import { Cryptography } from './cryptography.ts'
import { boundValue, differing, type Replay, type Step, type Value } from './replay.ts'

interface FloorEnv {
  readonly DB: D1Database
  readonly KEYS: KVNamespace
  readonly ENROLLMENTS: DurableObjectNamespace<EnrollmentObject>
}

export class EnrollmentObject extends DurableObject {
  /** Flat, and as small as the real call: text in, one value read and one stored, text out. */
  async call(sent: string, number: number, reads: boolean, stores: number | null, alarm: boolean): Promise<string> {
    const { kv } = this.ctx.storage
    if (reads) kv.get(VALUE)
    // Another value each time: SQLite writes nothing where a value stays.
    if (stores !== null) kv.put(VALUE, differing(filler(stores), number))
    if (alarm) await this.ctx.storage.setAlarm(Date.now() + 3_600_000)
    return sent
  }

  /** Without it no alarm can be set. None comes while the bench runs. */
  override alarm(): void {}
}

/** wrangler.toml names this class. */
export class KeyDirectory extends DurableObject {}

const VALUE = 'record'
/** Made with the replays: an isolate makes no keys before its first request. */
let cryptography: Cryptography | null = null
const replays = new Map<string, Replay>()

const fillers = new Map<number, string>()
function filler(characters: number): string {
  const text = fillers.get(characters) ?? 'x'.repeat(characters)
  fillers.set(characters, text)
  return text
}

/** `/<kind>/<number>?object=<number>&only=<d1|nothing>`, and `PUT /` with all replays by kind. */
export default {
  async fetch(request: Request, env: FloorEnv, context: ExecutionContext): Promise<Response> {
    const { pathname, searchParams } = new URL(request.url)
    if (request.method === 'PUT') {
      cryptography = await Cryptography.make()
      for (const [kind, replay] of Object.entries(await request.json<Record<string, Replay>>()))
        replays.set(kind, replay)
      return new Response(null, { status: 204 })
    }
    await request.arrayBuffer()
    const [, kind = '', number = ''] = pathname.split('/')
    const replay = replays.get(kind)
    if (replay === undefined) return new Response('no such kind', { status: 404 })
    const only = searchParams.get('only')
    const wanted = (step: Step): boolean => only === null || step.do === only
    const one = { env, number: Number(number), object: searchParams.get('object') ?? number }
    for (const step of replay.before) if (wanted(step)) await run(step, one)
    const later = replay.after.filter(wanted)
    if (later.length > 0) afterwards(later, one, context)
    return new Response(filler(replay.answer), { status: replay.status, headers: HEADERS })
  },
}

const HEADERS = { 'content-type': 'application/json', 'cache-control': 'no-store' }

interface One {
  readonly env: FloorEnv
  readonly number: number
  readonly object: string
}

async function run(step: Step, { env, number, object }: One): Promise<unknown> {
  switch (step.do) {
    case 'd1':
      return runAll(env.DB, prepared(env.DB, step, number))
    case 'object':
      return env.ENROLLMENTS.getByName(object).call(filler(step.sent), number, step.reads, step.stores, step.alarm)
    case 'kv':
      return env.KEYS.get(step.name, { cacheTtl: 30 })
    case 'fetch':
      return (await fetch(step.url, { method: 'POST', headers: step.headers, body: step.body })).text()
    default:
      return cryptography?.run(step)
  }
}

const prepared = (db: D1Database, step: Extract<Step, { do: 'd1' }>, number: number): D1PreparedStatement[] =>
  step.statements.map(({ sql, values }) => db.prepare(sql).bind(...values.map((value) => boundValue(value, number))))

const runAll = (db: D1Database, statements: D1PreparedStatement[]): Promise<unknown> =>
  statements.length === 1 ? (statements[0]?.all() ?? Promise.resolve()) : db.batch(statements)

const PAUSE = 100
/** By their SQL, lists of rows in JSON. */
const waiting = new Map<string, string[]>()
let isWriting = false

/** As the Worker's journal does: the rows of requests that end within a tenth of a second go together in one call. */
function afterwards(steps: readonly Step[], one: One, context: ExecutionContext): void {
  const { env, number } = one
  for (const step of steps) {
    const rows = step.do === 'd1' ? step.statements.map(({ sql, values: [value = null] }) => [sql, value] as const) : []
    if (rows.length === 0 || !rows.every(([, value]) => isRows(value))) context.waitUntil(run(step, one))
    else
      for (const [sql, value] of rows)
        waiting.set(sql, [...(waiting.get(sql) ?? []), String(boundValue(value, number))])
  }
  if (!isWriting && waiting.size > 0) context.waitUntil(writeAll(env.DB))
}

async function writeAll(db: D1Database): Promise<void> {
  isWriting = true
  while (waiting.size > 0) {
    const statements = [...waiting].map(([sql, lists]) => db.prepare(sql).bind(joined(lists)))
    waiting.clear()
    await runAll(db, statements)
    if (waiting.size > 0) await new Promise((resolve) => setTimeout(resolve, PAUSE))
  }
  isWriting = false
}

const isRows = (value: Value): boolean => value instanceof Object && 'rows' in value

/** Lists in JSON as one. */
const joined = (lists: readonly string[]): string => `[${lists.map((list) => list.slice(1, -1)).join(',')}]`
