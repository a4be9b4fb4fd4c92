// Opens and closes an HTTP server.

import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'

/** Gives the port; 0 asks for any. Without `host`, on every address. Rejects with the system's error. */
export function listen(server: Server, port: number, host?: string): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, host, () => {
      server.off('error', reject)
      resolve((server.address() as AddressInfo).port)
    })
  })
}

/** Cuts off the requests under way. */
export function closeServer(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve())
    server.closeAllConnections()
  })
}
