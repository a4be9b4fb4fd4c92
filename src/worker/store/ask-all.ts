// Asks all shards for what one of them has: a minted token, an event. Pure.

const ELSEWHERE = new Error('another shard has it, or none')

/**
 * Asks all at once, for what one of them has: the first answer that is not null; null where none has it. One that fails
 * is no matter where another has it, else this rejects as it does.
 */
export async function askAll<S, T>(all: readonly S[], ask: (one: S) => Promise<T | null>): Promise<T | null> {
  const [only, ...others] = all
  if (only !== undefined && others.length === 0) return ask(only)
  const asked = all.map(async (one) => (await ask(one)) ?? Promise.reject(ELSEWHERE))
  try {
    return await Promise.any(asked)
  } catch (error) {
    const faults: unknown[] = error instanceof AggregateError ? error.errors : [error]
    const fault = faults.find((one) => one !== ELSEWHERE)
    if (fault !== undefined) throw fault
    return null
  }
}
