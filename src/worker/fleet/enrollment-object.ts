// The Durable Object of one enrollment: keeps its record, authorizes every renewal and connection, holds its tunnel.
// It stores one value and sets one alarm. The output gate holds each answer back until what it grants is stored.

import { DurableObject } from 'cloudflare:workers'
import type { Leaf, LeafContent } from '../../protocol/leaf.ts'
import type { Reason } from '../../protocol/reasons.ts'
import { type Outcome, refuse } from '../../protocol/refusals.ts'
import { ok } from '../../protocol/result.ts'
import {
  addSeconds,
  type EpochSeconds,
  epochSeconds,
  rfc3339,
  seconds,
  toEpochMilliseconds,
  toEpochSeconds,
} from '../../protocol/time.ts'
import { frameText, type HelloFrame, PING, PONG, parseRunnerFrame } from '../../protocol/tunnel.ts'
import { type BanList, NO_BANS } from '../../trust/bans.ts'
import type { Decision } from '../../trust/decide.ts'
import { reauthorize } from '../../trust/reauthorize.ts'
import { logFailure } from '../telemetry/log.ts'
import { clearedAfter, type EnrollmentSources, fleetRowOf, isRowDue } from './fleet-row.ts'
import {
  type Connection,
  connectionUse,
  type EnrollmentRecord,
  type EnrollmentStart,
  type Renewal,
  recordFor,
  renewalUse,
  type SpentChallenge,
  startRecord,
  type Use,
} from './record.ts'
import { attach, attachmentOf, close, openSockets, sendDrain } from './sockets.ts'

/** The outcome of a call. */
export interface Answer<T> {
  /** The identity on record, also where the call is refused. Null without a record. */
  readonly known: Decision | null
  readonly result: Outcome<T>
}

export interface EnrollmentStatus {
  readonly connected: boolean
  readonly instanceId: string | null
  readonly serial: string
  readonly notAfter: EpochSeconds
  readonly ended: Reason | null
}

const RECORD = 'record'
/** How long `fetch` takes the socket of a connection that was admitted. */
const TICKET_LIFE = seconds(10)

interface Ticket {
  readonly connection: Connection
  readonly presented: Leaf
  readonly until: EpochSeconds
}

export class EnrollmentObject extends DurableObject<unknown> {
  readonly #sources: EnrollmentSources
  readonly #tickets = new Map<string, Ticket>()
  #list: BanList = NO_BANS

  constructor(state: DurableObjectState, env: unknown, sources: EnrollmentSources) {
    super(state, env)
    this.#sources = sources
    this.#answerPings()
  }

  /** Starts the record. A repeated start is granted too, unless the enrollment has renewed or was cut off meanwhile. */
  async begin(start: EnrollmentStart, list: BanList): Promise<Outcome<null>> {
    const stored = this.#load()
    const record = stored ?? startRecord(start)
    if (record.ended !== null) return refuse('enrollment_ended')
    if (record.lineage.tip.serial !== start.certificate.serial) return refuse('token_retry_over')
    const authorized = this.#reauthorize(record, this.#newest(list))
    if (!authorized.ok) return authorized
    if (stored === null) await this.#save(record)
    return ok(null)
  }

  /** `candidate`: the content of a new certificate. The answer names the content to sign, which is stored by then. */
  async renew(presented: Leaf, candidate: LeafContent, list: BanList): Promise<Answer<Renewal>> {
    return this.#apply(presented, (stored, now) => {
      const { record, result } = renewalUse(stored, this.#sources.trust, this.#newest(list), presented, candidate, now)
      return { record: record && this.#withRow(record, now), result }
    })
  }

  /** Admits a connection. The ticket is the path under which `fetch` takes its socket, once. */
  async admit(
    presented: Leaf,
    challenge: SpentChallenge | null,
    list: BanList,
  ): Promise<Answer<{ readonly ticket: string }>> {
    const { known, result } = await this.#apply(presented, (record, now) =>
      connectionUse(record, this.#sources.trust, this.#newest(list), presented, challenge, now),
    )
    if (!result.ok) return { known, result }
    const now = this.#now()
    for (const [name, { until }] of this.#tickets) if (until < now) this.#tickets.delete(name)
    const ticket = crypto.randomUUID()
    this.#tickets.set(ticket, { connection: result.value, presented, until: addSeconds(now, TICKET_LIFE) })
    return { known, result: ok({ ticket }) }
  }

  /** Takes over the socket of an admitted connection. Of the request only the ticket is used. */
  override async fetch(request: Request): Promise<Response> {
    const name = new URL(request.url).pathname.slice(1)
    const ticket = this.#tickets.get(name)
    this.#tickets.delete(name)
    const record = this.#load()
    if (ticket === undefined || ticket.until < this.#now() || record === null || record.ended !== null) {
      return new Response(null, { status: 410 })
    }
    const { 0: theirs, 1: ours } = new WebSocketPair()
    // Only a connection that is ready stays until the next one is ready, too.
    for (const { socket, attachment } of openSockets(this.ctx)) if (!attachment.ready) close(socket, 'replaced')
    this.ctx.acceptWebSocket(ours)
    attach(ours, { spiffeId: ticket.presented.spiffeId, notAfter: ticket.presented.notAfter, ready: false })
    this.#answerPings()
    if (ticket.connection === 'late') close(ours, 'replaced')
    else await this.#wakeBy(ticket.presented.notAfter)
    return new Response(null, { status: 101, webSocket: theirs })
  }

  override async webSocketMessage(socket: WebSocket, message: string | ArrayBuffer): Promise<void> {
    const attachment = attachmentOf(socket)
    if (attachment?.ready && message === PING) return socket.send(PONG)
    const frame = parseRunnerFrame(message)
    if (attachment === null || attachment.ready || frame === null) close(socket, 'protocolError')
    else await this.#hello(socket, frame)
    this.#answerPings()
  }

  override webSocketClose(socket: WebSocket, code: number): void {
    // 1005 and 1006 mean that there was no code, and must not be sent (RFC 6455 §7.4.1).
    socket.close(code === 1005 || code === 1006 ? 1000 : code)
  }

  override async alarm(): Promise<void> {
    const now = this.#now()
    for (const { socket, attachment } of openSockets(this.ctx)) if (attachment.notAfter <= now) close(socket, 'expired')
    const record = this.#load()
    if (record === null || now > clearedAfter(record)) {
      if (record !== null && record.ended === null)
        this.#updateD1(this.#sources.updateRow(fleetRowOf(record, false, now)))
      await this.ctx.storage.deleteAll()
      return
    }
    await this.#wakeNext(record)
  }

  /** Called by the cron: authorizes the enrollment anew and closes its tunnel where it is refused. The reason, or null. */
  async check(list: BanList): Promise<Reason | null> {
    this.#list = list
    const record = this.#load()
    if (record === null || record.ended !== null) return null
    const authorized = this.#reauthorize(record, list)
    if (authorized.ok) return null
    const { reason } = authorized.error
    // A ban can be lifted, a revocation cannot.
    if (reason === 'token_revoked') await this.#save({ ...record, ended: { reason, at: this.#now() } })
    for (const { socket } of openSockets(this.ctx)) close(socket, 'unauthorized')
    return reason
  }

  /** Asks the runner to finish its work and exit: at once where it is connected, else when it connects. */
  async drain(): Promise<void> {
    const record = this.#load()
    if (record === null || record.ended !== null || sendDrain(openSockets(this.ctx))) return
    await this.#save({ ...record, drain: true })
  }

  async status(): Promise<EnrollmentStatus | null> {
    const record = this.#load()
    if (record === null) return null
    const { serial, notAfter } = record.lineage.tip
    return {
      connected: this.#connected(),
      instanceId: record.instanceId,
      serial,
      notAfter,
      ended: record.ended?.reason ?? null,
    }
  }

  #reauthorize(record: EnrollmentRecord, list: BanList): Outcome<Decision> {
    return reauthorize(this.#sources.trust, list, { ...record, tenant: record.decision.tenant })
  }

  /** Decides on one use of a certificate, and stores the change of the record before it is granted. */
  async #apply<T>(
    presented: Leaf,
    decide: (record: EnrollmentRecord, now: EpochSeconds) => Use<T>,
  ): Promise<Answer<T>> {
    const now = this.#now()
    const stored = this.#load()
    const found = recordFor(stored, this.#sources.trust, presented)
    if (!found.ok) return { known: stored?.decision ?? null, result: found }
    const { record, result } = decide(found.value, now)
    if (record !== null) await this.#save(record)
    return { known: found.value.decision, result }
  }

  async #hello(socket: WebSocket, { instanceId }: HelloFrame): Promise<void> {
    const record = this.#load()
    const attachment = attachmentOf(socket)
    if (record === null || attachment === null || record.ended !== null) return close(socket, 'unauthorized')
    attach(socket, { ...attachment, ready: true })
    const { enrollmentId, decision } = record
    const notAfter = rfc3339(attachment.notAfter)
    socket.send(
      frameText({ type: 'ready', enrollmentId, spiffeId: attachment.spiffeId, runnerId: decision.runnerId, notAfter }),
    )
    // In this order: a connection is replaced by one that is ready.
    for (const other of openSockets(this.ctx)) if (other.socket !== socket) close(other.socket, 'replaced')
    if (record.drain) sendDrain(openSockets(this.ctx))
    const connected = { ...record, instanceId: instanceId ?? record.instanceId, drain: false }
    const next = this.#withRow(connected, this.#now())
    if (next !== connected || connected.instanceId !== record.instanceId || record.drain) await this.#save(next)
  }

  /**
   * Lets the edge answer pings without waking the object. The first frame of a socket must be its hello, so a ping
   * before that must reach the object. The setting is one for all sockets: it is off while any hello is missing.
   */
  #answerPings(): void {
    const answered = openSockets(this.ctx).every(({ attachment }) => attachment.ready)
    this.ctx.setWebSocketAutoResponse(answered ? new WebSocketRequestResponsePair(PING, PONG) : undefined)
  }

  /** The newest list so far: a Worker's own may be older than the one that the cron passed. */
  #newest(list: BanList): BanList {
    if (list.at > this.#list.at) this.#list = list
    return this.#list
  }

  #load(): EnrollmentRecord | null {
    return this.ctx.storage.kv.get<EnrollmentRecord>(RECORD) ?? null
  }

  async #save(record: EnrollmentRecord): Promise<void> {
    const before = this.#load()
    this.ctx.storage.kv.put(RECORD, record)
    if (before === null) await this.#wakeNext(record)
    if (record.ended === null || before?.ended) return
    for (const { socket } of openSockets(this.ctx)) close(socket, 'unauthorized')
    const { reason, at } = record.ended
    this.#updateD1(this.#sources.recordEnd(record.enrollmentId, reason, at))
  }

  /** Updates the fleet row where that is due. The caller stores the record that is returned. */
  #withRow(record: EnrollmentRecord, now: EpochSeconds): EnrollmentRecord {
    if (!isRowDue(record, now)) return record
    this.#updateD1(this.#sources.updateRow(fleetRowOf(record, this.#connected(), now)))
    return { ...record, rowWrittenAt: now }
  }

  /** Goes on after the answer and fails alone: runners must work while D1 is away. */
  #updateD1(update: Promise<void>): void {
    this.ctx.waitUntil(update.catch((error: unknown) => logFailure('fleet row not stored', error)))
  }

  #connected(): boolean {
    return openSockets(this.ctx).some(({ attachment }) => attachment.ready)
  }

  async #wakeNext(record: EnrollmentRecord): Promise<void> {
    const ends = openSockets(this.ctx).map(({ attachment }) => attachment.notAfter)
    const cleared = addSeconds(clearedAfter(record), seconds(1))
    await this.ctx.storage.setAlarm(toEpochMilliseconds(epochSeconds(Math.min(cleared, ...ends))))
  }

  /** Each change of the alarm costs a row written, so an earlier one stays; it will set the next. */
  async #wakeBy(time: EpochSeconds): Promise<void> {
    const at = toEpochMilliseconds(time)
    const set = await this.ctx.storage.getAlarm()
    if (set === null || set > at) await this.ctx.storage.setAlarm(at)
  }

  #now(): EpochSeconds {
    return toEpochSeconds(this.#sources.clock())
  }
}

/** The class that the Worker exports. `sourcesFor` gives what its objects need of an environment. */
export const enrollmentObjectWith = <E>(sourcesFor: (env: E) => EnrollmentSources) =>
  class extends EnrollmentObject {
    constructor(state: DurableObjectState, env: E) {
      super(state, env, sourcesFor(env))
    }
  }
