// The rate limits, and the keys that requests count under. Pure.
// What a caller only claims must not use up somebody else's rate, so it counts together with the caller's address.

/**
 * `failures` counts refusals by client address. `tenants` and `identities` count requests whose identity is proven;
 * `identities` also, under keys of their own, signed requests to AWS before STS is asked.
 */
export type Rate = 'failures' | 'identities' | 'tenants'

/** The key of a proven caller. The tenant comes first: no two tenants share one. */
export const clientKey = (tenant: string, client: string): string => `${tenant}/${client}`

// A tenant's slug has no space, so no tenant has these keys.

/** The key of an AWS access key ID that a caller named: it is no secret, so a stranger may name it. */
export const namedAccessKey = (address: string, accessKeyId: string): string =>
  `aws key ${accessKeyId} named by ${addressKeyOf(address)}`

/** The key of a minted token, known by its hash: only its holder can name it. */
export const tokenKey = (tokenHash: string): string => `token ${tokenHash}`

/** The key of an AWS access key ID that STS has proven. */
export const provenAccessKey = (accessKeyId: string): string => `aws key ${accessKeyId}`

/** An IPv4 address itself; of an IPv6 address its /64, since a client has a whole one. */
export function addressKeyOf(address: string): string {
  if (!address.includes(':')) return address
  const last = address.slice(address.lastIndexOf(':') + 1)
  // IPv4 in IPv6 (RFC 4291 §2.5.5.2)
  if (last.includes('.')) return last
  const [head = '', tail] = address.split('::', 2)
  const before = head === '' ? [] : head.split(':')
  const after = tail === undefined || tail === '' ? [] : tail.split(':')
  const zeros = Array.from({ length: Math.max(0, 8 - before.length - after.length) }, () => '0')
  return `${[...before, ...(tail === undefined ? [] : zeros), ...after].slice(0, 4).join(':')}::/64`
}
