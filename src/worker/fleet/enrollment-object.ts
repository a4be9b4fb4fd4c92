// The Durable Object of one enrollment: keeps its record, grants every use of its certificates, holds its tunnel.
// One stored value, one alarm. Whatever is granted was stored before: the output gate holds the answer until it is.

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
import { errorText, log } from '../telemetry/log.ts'
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
import { carriedBy, carry, close, openSockets, sendDrain } from './sockets.ts'

/** An answer, and whom it is about: known from the record even where the answer is no. */
export interface Answer<T> {
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
/** Between `admit` and the hand-over of the socket that it admits. */
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

  /**
   * Takes over from enrollment. The same start again is the same enrollment, unless that went on meanwhile or somebody
   * cut it off.
   */
  async begin(start: EnrollmentStart, list: BanList): Promise<Outcome<null>> {
    const stored = this.#load()
    const record = stored ?? startRecord(start)
    if (record.ended !== null) return refuse('enrollment_ended')
    if (record.lineage.tip.serial !== start.certificate.serial) return refuse('token_retry_over')
    const stands = reauthorize(this.#sources.trust, this.#newest(list), { ...record, tenant: record.decision.tenant })
    if (!stands.ok) return stands
    if (stored === null) await this.#save(record)
    return ok(null)
  }

  /** `candidate` is what a new certificate would be; the answer names what to sign, stored by then. */
  async renew(presented: Leaf, candidate: LeafContent, list: BanList): Promise<Answer<Renewal>> {
    return this.#use(presented, (known, now) => {
      const { record, result } = renewalUse(known, this.#sources.trust, this.#newest(list), presented, candidate, now)
      return { record: record && this.#withRow(record, now), result }
    })
  }

  /** Admits a connection; the ticket in the answer is the path under which `fetch` takes its socket, once. */
  async admit(
    presented: Leaf,
    challenge: SpentChallenge | null,
    list: BanList,
  ): Promise<Answer<{ readonly ticket: string }>> {
    const { known, result } = await this.#use(presented, (record, now) =>
      connectionUse(record, this.#sources.trust, this.#newest(list), presented, challenge, now),
    )
    if (!result.ok) return { known, result }
    const now = this.#now()
    for (const [name, { until }] of this.#tickets) if (until < now) this.#tickets.delete(name)
    const ticket = crypto.randomUUID()
    this.#tickets.set(ticket, { connection: result.value, presented, until: addSeconds(now, TICKET_LIFE) })
    return { known, result: ok({ ticket }) }
  }

  /** The hand-over of a socket. Nothing of the request counts but the ticket. */
  override async fetch(request: Request): Promise<Response> {
    const name = new URL(request.url).pathname.slice(1)
    const ticket = this.#tickets.get(name)
    this.#tickets.delete(name)
    const record = this.#load()
    if (ticket === undefined || ticket.until < this.#now() || record === null || record.ended !== null) {
      return new Response(null, { status: 410 })
    }
    const { 0: theirs, 1: ours } = new WebSocketPair()
    // A connection that has not said hello yet has no claim to stay when the next one comes.
    for (const { socket, carried } of openSockets(this.ctx)) if (!carried.ready) close(socket, 'replaced')
    this.ctx.acceptWebSocket(ours)
    carry(ours, { spiffeId: ticket.presented.spiffeId, notAfter: ticket.presented.notAfter, ready: false })
    this.#answerPings()
    if (ticket.connection === 'late') close(ours, 'replaced')
    else await this.#wakeBy(ticket.presented.notAfter)
    return new Response(null, { status: 101, webSocket: theirs })
  }

  override async webSocketMessage(socket: WebSocket, message: string | ArrayBuffer): Promise<void> {
    const carried = carriedBy(socket)
    if (carried?.ready && message === PING) return socket.send(PONG)
    const frame = parseRunnerFrame(message)
    if (carried === null || carried.ready || frame === null) close(socket, 'protocolError')
    else await this.#hello(socket, frame)
    this.#answerPings()
  }

  override webSocketClose(socket: WebSocket, code: number): void {
    // 1005 and 1006 stand for "no code" and may not be sent (RFC 6455 §7.4.1).
    socket.close(code === 1005 || code === 1006 ? 1000 : code)
  }

  override async alarm(): Promise<void> {
    const now = this.#now()
    for (const { socket, carried } of openSockets(this.ctx)) if (carried.notAfter <= now) close(socket, 'expired')
    const record = this.#load()
    if (record === null || now > clearedAfter(record)) {
      if (record !== null && record.ended === null) this.#later(this.#sources.updateRow(fleetRowOf(record, false, now)))
      await this.ctx.storage.deleteAll()
      return
    }
    await this.#wakeNext(record)
  }

  /** From the cron: whether it still stands by what operators decided meanwhile; its tunnel is closed if not. */
  async check(list: BanList): Promise<Reason | null> {
    this.#list = list
    const record = this.#load()
    if (record === null || record.ended !== null) return null
    const stands = reauthorize(this.#sources.trust, list, { ...record, tenant: record.decision.tenant })
    if (stands.ok) return null
    const { reason } = stands.error
    // A ban can be lifted, a revocation cannot.
    if (reason === 'token_revoked') await this.#save({ ...record, ended: { reason, at: this.#now() } })
    for (const { socket } of openSockets(this.ctx)) close(socket, 'standingLost')
    return reason
  }

  /** Asks the runner to finish and exit: now where it is connected, else when it connects. */
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

  async #use<T>(presented: Leaf, decide: (record: EnrollmentRecord, now: EpochSeconds) => Use<T>): Promise<Answer<T>> {
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
    const carried = carriedBy(socket)
    if (record === null || carried === null || record.ended !== null) return close(socket, 'standingLost')
    carry(socket, { ...carried, ready: true })
    const { enrollmentId, decision } = record
    const notAfter = rfc3339(carried.notAfter)
    socket.send(
      frameText({ type: 'ready', enrollmentId, spiffeId: carried.spiffeId, runnerId: decision.runnerId, notAfter }),
    )
    // After that: whoever is told that it was replaced finds the other one ready.
    for (const other of openSockets(this.ctx)) if (other.socket !== socket) close(other.socket, 'replaced')
    if (record.drain) sendDrain(openSockets(this.ctx))
    const told = { ...record, instanceId: instanceId ?? record.instanceId, drain: false }
    const next = this.#withRow(told, this.#now())
    if (next !== told || told.instanceId !== record.instanceId || record.drain) await this.#save(next)
  }

  /**
   * Pings are answered without waking the object, but never to a socket that has yet to say hello: its first frame
   * must be that. The edge has one answer for all sockets of the object, so there is none while one is silent.
   */
  #answerPings(): void {
    const answered = openSockets(this.ctx).every(({ carried }) => carried.ready)
    this.ctx.setWebSocketAutoResponse(answered ? new WebSocketRequestResponsePair(PING, PONG) : undefined)
  }

  /** An isolate's list may be older than the one that the cron just came with, and must not let anybody back in. */
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
    for (const { socket } of openSockets(this.ctx)) close(socket, 'standingLost')
    const { reason, at } = record.ended
    this.#later(this.#sources.recordEnd(record.enrollmentId, reason, at))
  }

  /** Rewrites the fleet row where that is due; the record that is given back says so and is to be stored. */
  #withRow(record: EnrollmentRecord, now: EpochSeconds): EnrollmentRecord {
    if (!isRowDue(record, now)) return record
    this.#later(this.#sources.updateRow(fleetRowOf(record, this.#connected(), now)))
    return { ...record, rowWrittenAt: now }
  }

  /** D1 may be away; what the fleet shows must stop no runner. */
  #later(work: Promise<void>): void {
    this.ctx.waitUntil(
      work.catch((error: unknown) => log('error', 'fleet row not stored', { error: errorText(error) })),
    )
  }

  #connected(): boolean {
    return openSockets(this.ctx).some(({ carried }) => carried.ready)
  }

  async #wakeNext(record: EnrollmentRecord): Promise<void> {
    const ends = openSockets(this.ctx).map(({ carried }) => carried.notAfter)
    const cleared = addSeconds(clearedAfter(record), seconds(1))
    await this.ctx.storage.setAlarm(toEpochMilliseconds(epochSeconds(Math.min(cleared, ...ends))))
  }

  /** Each change of the alarm is a row written, so one that is early enough stays: it looks what comes next. */
  async #wakeBy(time: EpochSeconds): Promise<void> {
    const at = toEpochMilliseconds(time)
    const set = await this.ctx.storage.getAlarm()
    if (set === null || set > at) await this.ctx.storage.setAlarm(at)
  }

  #now(): EpochSeconds {
    return toEpochSeconds(this.#sources.clock())
  }
}

/** The class that the Worker exports: the object with what the composition gives it. */
export const enrollmentObjectWith = <E>(sourcesFor: (env: E) => EnrollmentSources) =>
  class extends EnrollmentObject {
    constructor(state: DurableObjectState, env: E) {
      super(state, env, sourcesFor(env))
    }
  }
