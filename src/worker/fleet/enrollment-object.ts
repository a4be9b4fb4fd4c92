// The Durable Object of one enrollment: keeps its record, authorizes every renewal and connection, holds its tunnel.
// It stores one value and sets one alarm. The output gate holds each answer back until what it grants is stored.

import { DurableObject } from 'cloudflare:workers'
import { leafContentOf } from '../../protocol/leaf.ts'
import { mayStartLineage } from '../../protocol/modes.ts'
import type { Reason } from '../../protocol/reasons.ts'
import { type Outcome, refuse } from '../../protocol/refusals.ts'
import { ok } from '../../protocol/result.ts'
import { type EpochSeconds, rfc3339, toEpochSeconds } from '../../protocol/time.ts'
import { frameText, type HelloFrame, PING, PONG, parseRunnerFrame } from '../../protocol/tunnel.ts'
import { type BanList, NO_BANS } from '../../trust/bans.ts'
import type { Decision } from '../../trust/decide.ts'
import { reauthorize } from '../../trust/reauthorize.ts'
import { logFailure } from '../telemetry/log.ts'
import { recordFromD1, recordOfProvisioned } from './begin.ts'
import type { Answer, NamedEnrollment, RenewalAnswer, UseCaller } from './calls.ts'
import {
  clearedAfter,
  type EnrollmentSources,
  type EnrollmentStatus,
  fleetRowOf,
  isRowDue,
  statusOf,
} from './fleet-row.ts'
import type { SignedLeaf } from './lineage.ts'
import { afterHello, decisionToday, type EnrollmentRecord, isRevoked, type PresentedLeaf } from './record.ts'
import {
  answerPings,
  attach,
  attachmentOf,
  close,
  closeAll,
  givesWay,
  isConnected,
  openSockets,
  sendDrain,
} from './sockets.ts'
import { StoredRecord } from './stored-record.ts'
import { type Admission, Tickets } from './tickets.ts'
import type { Challenge } from './used-challenges.ts'
import { type Conditions, connectionUse, renewalUse, repeatUse, type Use } from './uses.ts'

export class EnrollmentObject extends DurableObject<unknown> {
  readonly #sources: EnrollmentSources
  readonly #tickets = new Tickets()
  #list: BanList = NO_BANS
  readonly #stored: StoredRecord

  constructor(state: DurableObjectState, env: unknown, sources: EnrollmentSources) {
    super(state, env)
    this.#sources = sources
    this.#stored = new StoredRecord(state.storage)
    this.#closeRefused()
    answerPings(this.ctx)
  }

  /** For a repeated enrollment. `candidate`: a new certificate for its key. The value is the certificate to answer with. */
  async repeat(named: NamedEnrollment, candidate: SignedLeaf, list: BanList): Promise<Outcome<SignedLeaf>> {
    const { result } = await this.#apply({ ...named, presented: null }, list, (record, conditions) =>
      repeatUse(record, candidate, conditions),
    )
    return result
  }

  /** `candidate`: a new certificate, which is on record where it is granted. */
  async renew(presented: PresentedLeaf, candidate: SignedLeaf, list: BanList): Promise<RenewalAnswer> {
    const { enrollmentId, tenant } = presented
    const { known, result } = await this.#apply({ enrollmentId, tenant, presented }, list, (stored, conditions) => {
      const { record, result } = renewalUse(stored, presented, candidate, conditions)
      return { record: record && this.#withRow(record, conditions.now), result }
    })
    const who = { identity: known?.identity ?? null, runnerId: known?.runnerId ?? null }
    if (!result.ok) return { ...who, refusal: result.error, again: null }
    const { retires, again, certificate } = result.value
    if (retires) closeAll(this.ctx, 'replaced')
    return { ...who, refusal: null, again: again ? certificate : null }
  }

  /** Admits a connection. The ticket is the path under which `fetch` takes its socket, once. */
  async admit(presented: PresentedLeaf, challenge: Challenge | null, list: BanList): Promise<Answer<Admission>> {
    const { enrollmentId, tenant } = presented
    const { known, result } = await this.#apply({ enrollmentId, tenant, presented }, list, (record, conditions) =>
      connectionUse(record, presented, challenge, conditions),
    )
    if (!result.ok) return { known, result }
    const connection = result.value
    const ticket = this.#tickets.issue({ connection, presented }, this.#now())
    return { known, result: ok({ ticket, late: connection === 'late' }) }
  }

  /** Takes over the socket of an admitted connection. Of the request only the ticket is used. */
  override async fetch(request: Request): Promise<Response> {
    const ticket = this.#tickets.take(new URL(request.url).pathname.slice(1), this.#now())
    const record = this.#stored.current
    if (ticket === null || record === null || record.ended !== null) return new Response(null, { status: 410 })
    const { connection, presented } = ticket
    const { 0: theirs, 1: ours } = new WebSocketPair()
    for (const { socket, attachment } of openSockets(this.ctx))
      if (givesWay(attachment, connection)) close(socket, 'replaced')
    this.ctx.acceptWebSocket(ours)
    const { spiffeId, notAfter } = presented
    attach(ours, { spiffeId, notAfter, ready: false, origin: connection === 'anew' ? leafContentOf(presented) : null })
    if (connection === 'late') close(ours, 'replaced')
    answerPings(this.ctx)
    if (connection !== 'late') await this.#stored.wakeBy(notAfter)
    return new Response(null, { status: 101, webSocket: theirs })
  }

  override async webSocketMessage(socket: WebSocket, message: string | ArrayBuffer): Promise<void> {
    const attachment = attachmentOf(socket)
    if (attachment?.ready && message === PING) return socket.send(PONG)
    const frame = parseRunnerFrame(message)
    if (attachment === null || attachment.ready || frame === null) close(socket, 'protocolError')
    else await this.#hello(socket, frame)
    answerPings(this.ctx)
  }

  override webSocketClose(socket: WebSocket, code: number): void {
    // 1005 and 1006 mean that there was no code, and must not be sent (RFC 6455 §7.4.1).
    socket.close(code === 1005 || code === 1006 ? 1000 : code)
  }

  override async alarm(): Promise<void> {
    const now = this.#now()
    for (const { socket, attachment } of openSockets(this.ctx)) if (attachment.notAfter <= now) close(socket, 'expired')
    const record = this.#stored.current
    if (record === null || now > clearedAfter(record)) {
      if (record !== null && record.ended === null)
        this.#updateD1(this.#sources.updateRow(record.decision.tenant, fleetRowOf(record, false, now)))
      await this.#stored.clear()
      return
    }
    await this.#wakeNext(record)
  }

  /** Called by the cron. Gives why the enrollment is no longer authorized, and closes its tunnel then; null where it is. */
  async check(list: BanList): Promise<Reason | null> {
    // Also for an enrollment that is about to begin: what D1 said to that may be older than this list.
    this.#list = list
    const record = this.#stored.current
    if (record === null) return 'lineage_missing'
    if (record.ended !== null) return record.ended.reason
    if (isRevoked(record, list)) {
      await this.#save({ ...record, ended: { reason: 'token_revoked', at: this.#now() } })
      return 'token_revoked'
    }
    const authorized = this.#reauthorize(record, list)
    if (authorized.ok) return null
    // The record goes on: a ban can be lifted, and a trust file corrected.
    closeAll(this.ctx, 'unauthorized')
    return authorized.error.reason
  }

  /** Asks the runner to finish its work and exit: at once where it is connected, else when it connects. */
  async drain(named: NamedEnrollment): Promise<void> {
    const begun = this.#stored.current === null ? await this.#begin({ ...named, presented: null }) : null
    const record = this.#stored.current ?? (begun?.ok ? begun.value : null)
    // The cron asks again after an exception.
    if (record === null && begun?.ok === false && begun.error.reason === 'storage_unavailable')
      throw new Error('whether the enrollment can be drained is not known')
    // Nobody is left to drain where the first certificate is too old to begin, as after the clean-up.
    const isOver = record === null || record.ended !== null || this.#now() > clearedAfter(record)
    if (isOver || sendDrain(openSockets(this.ctx))) return
    await this.#save({ ...record, drain: true })
  }

  async status(): Promise<EnrollmentStatus | null> {
    const record = this.#stored.current
    return record && statusOf(record, isConnected(this.ctx))
  }

  #reauthorize(record: EnrollmentRecord, list: BanList): Outcome<Decision> {
    return reauthorize(this.#sources.trust, list, { ...record, tenant: record.decision.tenant })
  }

  #conditions(list: BanList): Conditions {
    return { trust: this.#sources.trust, bans: this.#newest(list), now: this.#now() }
  }

  /** Decides on one use of the enrollment, and stores the change of the record before it is granted. */
  async #apply<T>(
    caller: UseCaller,
    list: BanList,
    decide: (record: EnrollmentRecord, conditions: Conditions) => Use<T>,
  ): Promise<Answer<T>> {
    const begun = this.#stored.current === null ? await this.#begin(caller) : null
    // Nothing is awaited from here to the write. Another call may have begun the record meanwhile.
    const stored = this.#stored.current
    const found = stored === null ? (begun ?? refuse('lineage_missing')) : ok(stored)
    if (!found.ok) return { known: null, result: found }
    if (found.value.ended !== null) return { known: found.value.decision, result: refuse('enrollment_ended') }
    const { record, result } = decide(found.value, this.#conditions(list))
    if (record !== null) await this.#save(record)
    return { known: decisionToday(found.value, this.#sources.trust), result }
  }

  /** The record of an enrollment that begins. It is not stored. */
  async #begin({ presented, ...named }: UseCaller): Promise<Outcome<EnrollmentRecord>> {
    const { trust, begin } = this.#sources
    if (presented !== null && mayStartLineage(presented.mode)) return recordOfProvisioned(trust, presented)
    try {
      return recordFromD1(await begin(named, this.#now()), presented)
    } catch (error) {
      // An exception would cross to the Worker as a bug.
      logFailure('an enrollment could not begin', error, { enrollmentId: named.enrollmentId })
      return refuse('storage_unavailable')
    }
  }

  async #hello(socket: WebSocket, { instanceId, agent }: HelloFrame): Promise<void> {
    const record = this.#stored.current
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

  /** The newest list that was passed so far: the cron reads its list anew, other callers may have an older one. */
  #newest(list: BanList): BanList {
    if (list.at > this.#list.at) this.#list = list
    return this.#list
  }

  async #save(record: EnrollmentRecord): Promise<void> {
    const before = this.#stored.current
    this.#stored.put(record)
    if (before === null) await this.#wakeNext(record)
    if (record.ended === null || before?.ended) return
    closeAll(this.ctx, 'unauthorized')
    const { reason, at } = record.ended
    const { enrollmentId, decision } = record
    this.#updateD1(this.#sources.recordEnd({ enrollmentId, tenant: decision.tenant }, reason, at))
  }

  /** Updates the fleet row where that is due. The caller stores the record that is returned. */
  #withRow(record: EnrollmentRecord, now: EpochSeconds): EnrollmentRecord {
    if (!isRowDue(record, now)) return record
    const row = fleetRowOf(record, isConnected(this.ctx), now)
    this.#updateD1(this.#sources.updateRow(record.decision.tenant, row), () => this.#forgetRow(now))
    return { ...record, row: { writtenAt: now, liveUntil: row.liveUntil } }
  }

  /** Makes the row due again at the next use, so that it is never behind by more than its hour. */
  #forgetRow(writtenAt: EpochSeconds): void {
    const record = this.#stored.current
    if (record?.row?.writtenAt === writtenAt) this.#stored.put({ ...record, row: null })
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
    const record = this.#stored.current
    if (record !== null && !this.#reauthorize(record, NO_BANS).ok) closeAll(this.ctx, 'unauthorized')
  }

  /** Wakes with the next end of a connection's certificate, or when the record can be cleared. */
  #wakeNext(record: EnrollmentRecord): Promise<void> {
    const ends = openSockets(this.ctx).map(({ attachment }) => attachment.notAfter)
    return this.#stored.wakeNext(record, ends)
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
