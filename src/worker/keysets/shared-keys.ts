// Which clusters hold a key that another one holds, too. Pure.

/**
 * Each of two clusters that share a signing key could forge the other's nodes, so every holder is named, whichever
 * came first. `thumbprints` is by cluster name.
 */
export function holdersOfSharedKeys(thumbprints: ReadonlyMap<string, readonly string[]>): Set<string> {
  const holders = new Map<string, string[]>()
  for (const [cluster, prints] of thumbprints) {
    for (const print of prints) holders.set(print, [...(holders.get(print) ?? []), cluster])
  }
  return new Set([...holders.values()].filter((names) => names.length > 1).flat())
}
