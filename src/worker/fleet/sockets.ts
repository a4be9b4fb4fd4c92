// The open WebSockets of an enrollment's object: what is attached to each through hibernation, who answers their pings,
// and how they are closed.

import type { LeafContent } from '../../protocol/leaf.ts'
import { type EpochSeconds, epochSeconds } from '../../protocol/time.ts'
import { frameText, PING, PONG, TUNNEL_CLOSE } from '../../protocol/tunnel.ts'
import type { Connection } from './uses.ts'

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

export function closeAll(state: DurableObjectState, cause: CloseCause): void {
  for (const { socket } of openSockets(state)) close(socket, cause)
}

/** Every socket that neither side has closed. */
export function openSockets(state: DurableObjectState): OpenSocket[] {
  return state.getWebSockets().flatMap((socket) => {
    const attachment = attachmentOf(socket)
    return attachment !== null && socket.readyState === WebSocket.OPEN ? [{ socket, attachment }] : []
  })
}

/** Whether a socket is open whose hello came. */
export const isConnected = (state: DurableObjectState): boolean =>
  openSockets(state).some(({ attachment }) => attachment.ready)

/**
 * Lets the edge answer pings without waking the object. The first frame of a socket must be its hello, so a ping before
 * the hello must reach the object. The setting is one for all sockets: it is off while any hello is missing.
 */
export function answerPings(state: DurableObjectState): void {
  const answered = openSockets(state).every(({ attachment }) => attachment.ready)
  state.setWebSocketAutoResponse(answered ? new WebSocketRequestResponsePair(PING, PONG) : undefined)
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
 * Whether a socket is closed as soon as a new connection comes. A ready socket stays until the new connection is ready,
 * too. A connection that starts the lineage anew closes no other before its own hello, and a late one never does.
 */
export const givesWay = ({ ready, origin }: Attachment, to: Connection): boolean =>
  !ready && (to === 'open' || (to === 'anew' && origin !== null))

/** Sends a drain to the ready socket. Gives whether there was one. */
export function sendDrain(sockets: readonly OpenSocket[]): boolean {
  const ready = sockets.find(({ attachment }) => attachment.ready)
  ready?.socket.send(frameText({ type: 'drain' }))
  return ready !== undefined
}
