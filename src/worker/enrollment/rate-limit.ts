// The rate limits, and the key that a client address counts under. Pure.

/** `failures` counts refusals by client address; the others count requests whose identity is proven. */
export type Rate = 'failures' | 'identities' | 'tenants'

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
