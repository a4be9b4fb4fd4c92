// Which host names are this machine itself: only to those may plain http go. No I/O.

import { isIPv4 } from 'node:net'

/** `hostname` as the URL class gives it. */
export const isLoopback = (hostname: string): boolean =>
  hostname === 'localhost' ||
  hostname.endsWith('.localhost') ||
  hostname === '[::1]' ||
  (isIPv4(hostname) && hostname.startsWith('127.'))
