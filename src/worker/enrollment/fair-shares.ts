// Divides the calls of one run among several lists, so that a very long one delays no other. Pure.

/** How many of each list are called: the shortest lists in full, as far as there is room, and the others alike. */
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
