// The Durable Object of one enrollment: keeps its record, authorizes every renewal and connection, holds its tunnel.
// It stores one value and sets one alarm. The output gate holds each answer back until what it grants is stored.

import { DurableObject } from 'cloudflare:workers'
import { type Leaf, leafContentOf } from '../../protocol/leaf.ts'
import type { Reason } from '../../protocol/reasons.ts'
import type { Outcome } from '../../protocol/refusals.ts'
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
import {
  clearedAfter,
  type EnrollmentSources,
  type EnrollmentStatus,
  fleetRowOf,
  isRowDue,
  statusOf,
} from './fleet-row.ts'
import type { SignedLeaf } from './lineage.ts'
import {
  type Answer,
  afterHello,
  beginUse,
  connectionUse,
  decisionToday,
  type EnrollmentRecord,
  type EnrollmentStart,
  isRevoked,
  type Renewal,
  recordFor,
  renewalUse,
  type SpentChallenge,
  type Use,
} from './record.ts'
import { attach, attachmentOf, type CloseCause, close, givesWay, openSockets, sendDrain } from './sockets.ts'
import { type Admission, Tickets } from './tickets.ts'

const RECORD = 'record'

export class EnrollmentObject extends DurableObject<unknown> {
  readonly #sources: EnrollmentSources
  readonly #tickets = new Tickets()
  #list: BanList = NO_BANS

  constructor(state: DurableObjectState, env: unknown, sources: EnrollmentSources) {
    super(state, env)
    this.#sources = sources
    this.#closeRefused()
    this.#answerPings()
  }

  /** Starts the record. The value is the certificate to answer with: a repeated start gets the same again. */
  async begin(start: EnrollmentStart, list: BanList): Promise<Outcome<SignedLeaf>> {
    const { record, result } = beginUse(this.#load(), this.#sources.trust, this.#newest(list), start, this.#now())
    if (record !== null) await this.#save(record)
    return result
  }

  /** `candidate`: a new certificate. The value has the one to answer with, which is on record by then. */
  async renew(presented: Leaf, candidate: SignedLeaf, list: BanList): Promise<Answer<Renewal>> {
    const answer = await this.#apply(presented, (stored, now) => {
      const { record, result } = renewalUse(stored, this.#sources.trust, this.#newest(list), presented, candidate, now)
      return { record: record && this.#withRow(record, now), result }
    })
    if (answer.result.ok && answer.result.value.retires) this.#closeAll('replaced')
    return answer
  }

  /** Admits a connection. The ticket is the path under which `fetch` takes its socket, once. */
  async admit(presented: Leaf, challenge: SpentChallenge | null, list: BanList): Promise<Answer<Admission>> {
    const { known, result } = await this.#apply(presented, (record, now) =>
      connectionUse(record, this.#sources.trust, this.#newest(list), presented, challenge, now),
    )
    if (!result.ok) return { known, result }
    const connection = result.value
    const ticket = this.#tickets.issue({ connection, presented }, this.#now())
    return { known, result: ok({ ticket, late: connection === 'late' }) }
  }

  /** Takes over the socket of an admitted connection. Of the request only the ticket is used. */
  override async fetch(request: Request): Promise<Response> {
    const ticket = this.#tickets.take(new URL(request.url).pathname.slice(1), this.#now())
    const record = this.#load()
    if (ticket === null || record === null || record.ended !== null) return new Response(null, { status: 410 })
    const { connection, presented } = ticket
    const { 0: theirs, 1: ours } = new WebSocketPair()
    for (const { socket, attachment } of openSockets(this.ctx))
      if (givesWay(attachment, connection)) close(socket, 'replaced')
    this.ctx.acceptWebSocket(ours)
    const { spiffeId, notAfter } = presented
    attach(ours, { spiffeId, notAfter, ready: false, origin: connection === 'anew' ? leafContentOf(presented) : null })
    if (connection === 'late') close(ours, 'replaced')
    this.#answerPings()
    if (connection !== 'late') await this.#wakeBy(notAfter)
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

  /**
   * Called by the cron: authorizes the enrollment anew and closes its tunnel where it is refused. The reason; null where
   * it is authorized.
   */
  async check(list: BanList): Promise<Reason | null> {
    const record = this.#load()
    if (record === null) return 'lineage_missing'
    if (record.ended !== null) return record.ended.reason
    this.#list = list
    if (isRevoked(record, list)) {
      await this.#save({ ...record, ended: { reason: 'token_revoked', at: this.#now() } })
      return 'token_revoked'
    }
    const authorized = this.#reauthorize(record, list)
    if (authorized.ok) return null
    // A ban can be lifted, and a trust file corrected.
    this.#closeAll('unauthorized')
    return authorized.error.reason
  }

  /** Asks the runner to finish its work and exit: at once where it is connected, else when it connects. */
  async drain(): Promise<void> {
    const record = this.#load()
    if (record === null || record.ended !== null || sendDrain(openSockets(this.ctx))) return
    await this.#save({ ...record, drain: true })
  }

  async status(): Promise<EnrollmentStatus | null> {
    const record = this.#load()
    return record && statusOf(record, this.#connected())
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
    return { known: decisionToday(found.value, this.#sources.trust), result }
  }

  async #hello(socket: WebSocket, { instanceId, agent }: HelloFrame): Promise<void> {
    const record = this.#load()
    const attachment = attachmentOf(socket)
    if (record === null || attachment === null || record.ended !== null) return close(socket, 'unauthorized')
    const now = this.#now()
    const { origin, notAfter, spiffeId } = attachment
    attach(socket, { ...attachment, ready: true })
    const said = afterHello(record, { instanceId, agent, origin }, now)
    const next = this.#withRow(said, now)
    if (next !== record) await this.#save(next)
    const { enrollmentId } = record
    const { runnerId } = decisionToday(record, this.#sources.trust)
    socket.send(frameText({ type: 'ready', enrollmentId, spiffeId, runnerId, notAfter: rfc3339(notAfter) }))
    // In this order: a connection is replaced by one that is ready.
    for (const other of openSockets(this.ctx)) if (other.socket !== socket) close(other.socket, 'replaced')
    if (record.drain) sendDrain(openSockets(this.ctx))
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
    this.#closeAll('unauthorized')
    const { reason, at } = record.ended
    this.#updateD1(this.#sources.recordEnd(record.enrollmentId, reason, at))
  }

  /** Updates the fleet row where that is due. The caller stores the record that is returned. */
  #withRow(record: EnrollmentRecord, now: EpochSeconds): EnrollmentRecord {
    if (!isRowDue(record, now)) return record
    const row = fleetRowOf(record, this.#connected(), now)
    this.#updateD1(this.#sources.updateRow(row), () => this.#forgetRow(now))
    return { ...record, row: { writtenAt: now, liveUntil: row.liveUntil } }
  }

  /** The row is due again at the next use, else it would be behind by more than its hour. */
  #forgetRow(writtenAt: EpochSeconds): void {
    const record = this.#load()
    if (record?.row?.writtenAt === writtenAt) this.ctx.storage.kv.put(RECORD, { ...record, row: null })
  }

  /** Goes on after the answer and fails alone: runners must work while D1 is away. */
  #updateD1(update: Promise<void>, failed: () => void = () => {}): void {
    this.ctx.waitUntil(
      update.catch((error: unknown) => {
        logFailure('fleet row not stored', error)
        failed()
      }),
    )
  }

  /** A deploy restarts every object, perhaps with another trust file. */
  #closeRefused(): void {
    const record = this.#load()
    if (record !== null && !this.#reauthorize(record, NO_BANS).ok) this.#closeAll('unauthorized')
  }

  #closeAll(cause: CloseCause): void {
    for (const { socket } of openSockets(this.ctx)) close(socket, cause)
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
