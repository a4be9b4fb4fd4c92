// Divides the calls of one run among several lists, so that a very long one delays no other. Pure.

/** How many entries of each list are called: all of the shortest lists, and an equal share of each longer one. */
export function fairShares(lengths: readonly number[], room: number): number[] {
  const shares = lengths.map(() => 0)
  const shortestFirst = [...lengths.entries()].sort(([, a], [, b]) => a - b)
  let left = room
  for (const [i, [at, length]] of shortestFirst.entries()) {
    const share = Math.min(length, Math.floor(left / (lengths.length - i)))
    shares[at] = share
    left -= share
  }
  return shares
}
