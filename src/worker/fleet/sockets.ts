// The sockets of one enrollment as the object finds them after a sleep: what each carries, and how they are closed.

import { type EpochSeconds, epochSeconds } from '../../protocol/time.ts'
import { frameText, TUNNEL_CLOSE } from '../../protocol/tunnel.ts'

/** Rides on the socket through hibernation; far under the 16 KiB that an attachment may have. */
export interface Carried {
  readonly spiffeId: string
  readonly notAfter: EpochSeconds
  /** Whether it said hello; until then it replaces nothing. */
  readonly ready: boolean
}

export interface Socket {
  readonly socket: WebSocket
  readonly carried: Carried
}

export type CloseCause = keyof typeof TUNNEL_CLOSE

const TEXTS: Record<CloseCause, string> = {
  protocolError: 'protocol error',
  expired: 'certificate expired',
  replaced: 'replaced by another connection',
  standingLost: 'enrollment refused',
}

export function close(socket: WebSocket, cause: CloseCause): void {
  socket.close(TUNNEL_CLOSE[cause], TEXTS[cause])
}

/** Every socket that nobody has closed yet. */
export function openSockets(state: DurableObjectState): Socket[] {
  return state.getWebSockets().flatMap((socket) => {
    const carried = carriedBy(socket)
    return carried !== null && socket.readyState === WebSocket.OPEN ? [{ socket, carried }] : []
  })
}

export const carry = (socket: WebSocket, carried: Carried): void => socket.serializeAttachment(carried)

/** Null for a socket that is not one of ours. */
export function carriedBy(socket: WebSocket): Carried | null {
  const carried: Partial<Carried> | null = socket.deserializeAttachment()
  const { spiffeId, notAfter, ready } = carried ?? {}
  if (typeof spiffeId !== 'string' || typeof notAfter !== 'number' || typeof ready !== 'boolean') return null
  return { spiffeId, notAfter: epochSeconds(notAfter), ready }
}

/** Whether one that said hello got it. */
export function sendDrain(sockets: readonly Socket[]): boolean {
  const ready = sockets.find(({ carried }) => carried.ready)
  ready?.socket.send(frameText({ type: 'drain' }))
  return ready !== undefined
}
