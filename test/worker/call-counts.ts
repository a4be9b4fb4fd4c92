// Counts what was recorded of a Worker's calls (calls.ts): the round trips that an answer waits for, and the rows. Pure.

export interface D1Statement {
  readonly sql: string
  readonly values: readonly unknown[]
}

/** One call over the network of a deployed Worker. */
export interface Call {
  readonly place: 'd1' | 'object' | 'kv'
  /** Name of the method. */
  readonly method: string
  readonly values: readonly unknown[]
  readonly statements: readonly D1Statement[]
  /** By a clock that counts beginnings and ends. */
  readonly from: number
  to: number
  /** How long it took by the clock of the machine, without what a recorder added. */
  milliseconds: number
}

/** One call of an object to its own storage. */
export interface StorageCall {
  readonly method: 'get' | 'put' | 'delete' | 'setAlarm' | 'deleteAlarm'
  readonly values: readonly unknown[]
}

export interface Recording {
  readonly calls: readonly Call[]
  readonly storage: readonly StorageCall[]
  /** As D1 says itself. */
  readonly d1: { rowsRead: number; rowsWritten: number; sqlMilliseconds: number }
  /** Objects that came into memory. */
  loaded: number
  /** When the answer left, by the same clock. */
  answeredAt: number
}

/** What was asked of one place. */
interface Asked {
  /** The longest chain of calls, each begun after the end of the one before, that had ended when the answer left. */
  readonly waited: number
  readonly calls: number
}

export interface Counts {
  readonly d1: Asked & { readonly statements: number; readonly rowsRead: number; readonly rowsWritten: number }
  /** Rows: values read; values and alarms written. `loaded`: objects that came into memory. */
  readonly object: Asked & { readonly rowsRead: number; readonly rowsWritten: number; readonly loaded: number }
  readonly kv: Asked
}

export function countsOf({ calls, storage, d1, loaded, answeredAt }: Recording): Counts {
  const asked = (place: Call['place']): Asked => {
    const all = calls.filter((call) => call.place === place)
    return { waited: longestChain(all.filter(({ to }) => to < answeredAt)), calls: all.length }
  }
  const rowsRead = storage.filter(({ method }) => method === 'get').length
  return {
    d1: {
      ...asked('d1'),
      statements: calls.flatMap(({ statements }) => statements).length,
      rowsRead: d1.rowsRead,
      rowsWritten: d1.rowsWritten,
    },
    object: { ...asked('object'), rowsRead, rowsWritten: storage.length - rowsRead, loaded },
    kv: asked('kv'),
  }
}

/** Calls that overlap are one link. */
function longestChain(calls: readonly Call[]): number {
  let length = 0
  let end = 0
  for (const { from, to } of calls.toSorted((a, b) => a.to - b.to)) {
    if (from < end) continue
    length++
    end = to
  }
  return length
}
