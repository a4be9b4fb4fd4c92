// Records what a Worker asks of D1, of its objects and of KV, by wrapping its bindings and the storage of its objects.

import { bindingOf, shardsOf } from '../../src/trust/shards.ts'
import { databaseOfShard, type Env } from '../../src/worker/env.ts'
import type { Call, D1Statement, Recording, StorageCall } from './call-counts.ts'

/** Milliseconds that each call takes longer. What an answer does not wait for ends after it only if it takes long. */
export type Latency = Readonly<Partial<Record<Call['place'], number>>>

export class CallRecorder {
  readonly #latency: Latency
  readonly #pending = new Set<Promise<unknown>>()
  readonly #wrapped = new WeakMap<object, Env>()
  readonly #statements = new WeakMap<object, { readonly real: D1PreparedStatement; readonly said: D1Statement }>()
  #tick = 0
  #recording = nothing()
  #calls: Call[] = []
  #storage: StorageCall[] = []

  constructor(latency: Latency = {}) {
    this.#latency = latency
  }

  /** The environment with its bindings wrapped; the same object each time, as the isolate has one. */
  bindings<E extends Env>(env: E): E {
    const known = this.#wrapped.get(env)
    if (known !== undefined) return known as E
    const databases = shardsOf(Object.keys(env)).map(
      (shard) => [bindingOf(shard), this.#database(databaseOfShard(env, shard))] as const,
    )
    const wrapped: E = {
      ...env,
      ...Object.fromEntries(databases),
      KEYS: through(env.KEYS, (name, value) => this.#timed('kv', name, value, env.KEYS)),
      ENROLLMENTS: this.#objects(env.ENROLLMENTS),
      KEY_DIRECTORY: this.#objects(env.KEY_DIRECTORY),
    }
    this.#wrapped.set(env, wrapped)
    return wrapped
  }

  /** Records what an object that is being made asks of its storage, which is changed for that. */
  watchObject({ storage }: DurableObjectState): void {
    this.#recording.loaded++
    for (const method of ['get', 'put', 'delete'] as const) this.#watch(storage.kv, method)
    for (const method of ['get', 'put', 'delete', 'setAlarm', 'deleteAlarm'] as const) this.#watch(storage, method)
  }

  /** To be called when the answer leaves. */
  answered(): void {
    this.#recording.answeredAt = ++this.#tick
  }

  /** What was recorded since the last time, once nothing is under way any more. */
  async take(): Promise<Recording> {
    do {
      await Promise.allSettled(this.#pending)
      // What follows on a call that has ended may begin another.
      await new Promise((resolve) => setTimeout(resolve, 10))
    } while (this.#pending.size > 0)
    const recording = { ...this.#recording, calls: this.#calls, storage: this.#storage }
    this.#recording = nothing()
    this.#calls = []
    this.#storage = []
    return recording
  }

  async #run<T>(call: Omit<Call, 'from' | 'to' | 'milliseconds'>, run: () => Promise<T>): Promise<T> {
    const entry: Call = { ...call, from: ++this.#tick, to: Number.POSITIVE_INFINITY, milliseconds: 0 }
    this.#calls.push(entry)
    const latency = this.#latency[call.place] ?? 0
    const running = (async () => {
      if (latency > 0) await new Promise((resolve) => setTimeout(resolve, latency))
      // The clock of workerd stands still but for I/O, and this is I/O alone.
      const from = Date.now()
      return run().finally(() => {
        entry.milliseconds = Date.now() - from
      })
    })().finally(() => {
      entry.to = ++this.#tick
    })
    this.#pending.add(running)
    return running.finally(() => this.#pending.delete(running))
  }

  /** A method of a binding that is recorded; undefined for what is none. */
  #timed(place: 'object' | 'kv', name: string | symbol, value: unknown, real: object) {
    // A stub answers to any name, and must not be taken for a promise.
    if (typeof value !== 'function' || typeof name !== 'string' || name === 'then') return undefined
    return (...values: unknown[]) =>
      this.#run({ place, method: name, values, statements: [] }, async () => Reflect.apply(value, real, values))
  }

  #objects<T extends Rpc.DurableObjectBranded>(objects: DurableObjectNamespace<T>): DurableObjectNamespace<T> {
    const stub = (real: object) => through(real, (name, value) => this.#timed('object', name, value, real))
    return through(objects, (name) => {
      if (name === 'getByName') return (id: string) => stub(objects.getByName(id))
      if (name === 'get') return (id: DurableObjectId) => stub(objects.get(id))
      return undefined
    })
  }

  #database(database: D1Database): D1Database {
    return through(database, (name) => {
      if (name === 'prepare') return (sql: string) => this.#statement(database.prepare(sql), { sql, values: [] })
      if (name === 'exec' || name === 'dump' || name === 'withSession') {
        throw new Error(`${name} of D1 is not recorded: have the recorder wrap it first`)
      }
      if (name !== 'batch') return undefined
      return (wrapped: D1PreparedStatement[]) => {
        const own = wrapped.flatMap((statement) => this.#statements.get(statement) ?? [])
        const call = { place: 'd1', method: 'batch', values: [], statements: own.map(({ said }) => said) } as const
        return this.#run(call, async () =>
          (await database.batch(own.map(({ real }) => real))).map((result) => this.#noted(result)),
        )
      }
    })
  }

  #statement(real: D1PreparedStatement, said: D1Statement): D1PreparedStatement {
    const call = { place: 'd1', values: [], statements: [said] } as const
    const all = (method: string) =>
      this.#run({ ...call, method }, async () => this.#noted(await real.all<Record<string, unknown>>()))
    const wrapped = through(real, (name) => {
      if (name === 'bind') return (...values: unknown[]) => this.#statement(real.bind(...values), { ...said, values })
      if (name === 'run' || name === 'all') return () => all(name)
      // These two do not say themselves how many rows they read and wrote.
      if (name === 'raw') return async () => (await all(name)).results.map((row) => Object.values(row))
      if (name !== 'first') return undefined
      return async (column?: string) => {
        const row = (await all(name)).results[0] ?? null
        return column === undefined ? row : (row?.[column] ?? null)
      }
    })
    this.#statements.set(wrapped, { real, said })
    return wrapped
  }

  #noted<T>(result: D1Result<T>): D1Result<T> {
    this.#recording.d1.rowsRead += result.meta.rows_read
    this.#recording.d1.rowsWritten += result.meta.rows_written
    this.#recording.d1.sqlMilliseconds += result.meta.duration
    return result
  }

  #watch<T extends object>(real: T, method: StorageCall['method'] & keyof T): void {
    const own: unknown = real[method]
    if (typeof own !== 'function') throw new Error(`an object's storage has no ${method}`)
    const value = (...values: unknown[]): unknown => {
      this.#storage.push({ method, values })
      return Reflect.apply(own, real, values)
    }
    Object.defineProperty(real, method, { value })
  }
}

const nothing = () => ({
  d1: { rowsRead: 0, rowsWritten: 0, sqlMilliseconds: 0 },
  loaded: 0,
  answeredAt: Number.POSITIVE_INFINITY,
})

/** The object itself, but for what `instead` gives for a name; undefined leaves it. */
function through<T extends object>(real: T, instead: (name: string | symbol, value: unknown) => unknown): T {
  return new Proxy(real, {
    get: (_, name) => {
      const value: unknown = Reflect.get(real, name, real)
      return instead(name, value) ?? (typeof value === 'function' ? value.bind(real) : value)
    },
  })
}
