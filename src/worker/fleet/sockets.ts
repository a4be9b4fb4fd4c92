// The open WebSockets of an enrollment's object: what is attached to each through hibernation, and how they are closed.

import type { LeafContent } from '../../protocol/leaf.ts'
import { type EpochSeconds, epochSeconds } from '../../protocol/time.ts'
import { frameText, TUNNEL_CLOSE } from '../../protocol/tunnel.ts'
import type { Connection } from './record.ts'

/** Survives hibernation with the socket; far below the 16 KiB that an attachment may have. */
export interface Attachment {
  readonly spiffeId: string
  readonly notAfter: EpochSeconds
  /** Whether its hello came. */
  readonly ready: boolean
  /** The certificate with which the lineage starts anew when its hello comes; null for any other connection. */
  readonly origin: LeafContent | null
}

export interface OpenSocket {
  readonly socket: WebSocket
  readonly attachment: Attachment
}

export type CloseCause = keyof typeof TUNNEL_CLOSE

const TEXTS: Record<CloseCause, string> = {
  protocolError: 'protocol error',
  expired: 'certificate expired',
  replaced: 'replaced by another connection',
  unauthorized: 'enrollment refused',
}

export function close(socket: WebSocket, cause: CloseCause): void {
  socket.close(TUNNEL_CLOSE[cause], TEXTS[cause])
}

/** Every socket that neither side has closed. */
export function openSockets(state: DurableObjectState): OpenSocket[] {
  return state.getWebSockets().flatMap((socket) => {
    const attachment = attachmentOf(socket)
    return attachment !== null && socket.readyState === WebSocket.OPEN ? [{ socket, attachment }] : []
  })
}

export const attach = (socket: WebSocket, attachment: Attachment): void => socket.serializeAttachment(attachment)

/** Null for a socket without an attachment of this shape. */
export function attachmentOf(socket: WebSocket): Attachment | null {
  const attachment: Partial<Attachment> | null = socket.deserializeAttachment()
  const { spiffeId, notAfter, ready, origin = null } = attachment ?? {}
  if (typeof spiffeId !== 'string' || typeof notAfter !== 'number' || typeof ready !== 'boolean') return null
  return { spiffeId, notAfter: epochSeconds(notAfter), ready, origin }
}

/**
 * Whether a socket is closed as soon as a new connection comes. One that is ready stays until the new one is ready, too.
 * One that starts the lineage anew touches no other until then, and a late one never does.
 */
export const givesWay = ({ ready, origin }: Attachment, to: Connection): boolean =>
  !ready && (to === 'open' || (to === 'anew' && origin !== null))

/** Whether a socket that is ready was there to send it to. */
export function sendDrain(sockets: readonly OpenSocket[]): boolean {
  const ready = sockets.find(({ attachment }) => attachment.ready)
  ready?.socket.send(frameText({ type: 'drain' }))
  return ready !== undefined
}
