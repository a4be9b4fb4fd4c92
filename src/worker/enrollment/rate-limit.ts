// The rate limits, and what a client counts as in one before it proved anything: its address. Pure.

/** `failures` counts refusals by client address, the others requests that proved who they are. */
export type Rate = 'failures' | 'identities' | 'tenants'

/** An IPv4 address itself, or the /64 of an IPv6 one: a client has a whole /64 to itself. */
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
