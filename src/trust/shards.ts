// The shards: databases that hold the tenants between them. Each is a whole of its own, and has a number. Pure.

/** Shards are numbered from 0 to this. Each is asked for a minted token, six at once. */
export const LAST_SHARD = 15

/** The tenants that are not in shard 0, and where they are. */
export type Placements = readonly { readonly tenant: string; readonly shard: number }[]

/** The name of a shard's binding in wrangler.toml: `DB` of shard 0, then `DB_1`, `DB_2`, … */
export const bindingOf = (shard: number): string => (shard === 0 ? 'DB' : `DB_${shard}`)

/** The shards with a binding among these names, in their order. */
export const shardsOf = (bindings: readonly string[]): number[] =>
  Array.from({ length: LAST_SHARD + 1 }, (_, shard) => shard).filter((shard) => bindings.includes(bindingOf(shard)))

/** The shard of a tenant: 0 where the trust file names none, or not the tenant. */
export const shardOf = (placements: Placements, tenant: string): number =>
  placements.find((placed) => placed.tenant === tenant)?.shard ?? 0

/** Something of each shard. */
export interface Shards<S> {
  /** That of shard 0 first. */
  readonly all: readonly [S, ...S[]]
  /** That of the tenant's shard; of shard 0 without a tenant. */
  readonly of: (tenant: string | null) => S
}

/** Opens shard 0, the shards with a binding, and those that the trust file names. */
export function openShards<S>(bound: readonly number[], placements: Placements, open: (shard: number) => S): Shards<S> {
  const first = open(0)
  const numbers = [...new Set([...bound, ...placements.map(({ shard }) => shard)])].filter((shard) => shard !== 0)
  const others = new Map(numbers.sort((a, b) => a - b).map((shard) => [shard, open(shard)]))
  const places = new Map(placements.map(({ tenant, shard }) => [tenant, others.get(shard)]))
  return { all: [first, ...others.values()], of: (tenant) => (tenant === null ? first : (places.get(tenant) ?? first)) }
}
