// The way of a connection: early data → proofs → certificate → reauthorization and lineage, in one call → the socket.

import { type Bytes, equalBytes, utf8 } from '../../protocol/bytes.ts'
import type { VerifiedLeaf } from '../../protocol/leaf.ts'
import { type Outcome, refuse } from '../../protocol/refusals.ts'
import { err, ok } from '../../protocol/result.ts'
import { type EpochSeconds, toEpochSeconds } from '../../protocol/time.ts'
import { parseClientCert, parseProof, proofText } from '../../protocol/tunnel.ts'
import { connectionRefusal } from '../ca/presented.ts'
import type { SpentChallenge } from '../fleet/record.ts'
import { challengeExpiry } from './challenge.ts'
import type { Dependencies } from './dependencies.ts'
import { noteLeaf } from './enroll.ts'
import { type Caller, type Facts, recorded } from './event.ts'

/** The parts of a WebSocket upgrade that may prove a certificate, none of them verified. Null: not there. */
export interface UpgradeRequest {
  /** Host of the request's URL, with its port where that is not the scheme's own. */
  readonly host: string
  readonly earlyData: string | null
  /** The client certificate as the edge got it in TLS; the edge's own verdict on it decides nothing. */
  readonly tlsCertificate: string | null
  /** The client's own words: worth something with a proof only. */
  readonly clientCert: string | null
  readonly proof: string | null
}

/** The socket of an accepted upgrade; the object of the enrollment holds its other end. */
export const openTunnel = (
  deps: Dependencies,
  caller: Caller,
  upgrade: Outcome<UpgradeRequest>,
): Promise<Outcome<WebSocket>> =>
  recorded(
    deps,
    caller,
    (facts) => steps(deps, caller, upgrade, facts),
    () => 'connected',
  )

async function steps(
  deps: Dependencies,
  caller: Caller,
  upgrade: Outcome<UpgradeRequest>,
  facts: Facts,
): Promise<Outcome<WebSocket>> {
  const now = toEpochSeconds(caller.at)
  if (!upgrade.ok) return upgrade
  // RFC 8470 §5.1: what came before the handshake ended can be replayed.
  if (upgrade.value.earlyData !== null) return refuse('early_data')

  const proofs = readProofs(upgrade.value)
  if (!proofs.ok) return proofs
  const presented = await deps.verifyLeaf(proofs.value.der)
  if (!presented.ok) return presented
  const challenge = await spentBy(deps, upgrade.value.host, presented.value, proofs.value, now)
  if (!challenge.ok) return challenge
  noteLeaf(facts, presented.value.leaf)
  const refusal = connectionRefusal(presented.value, now)
  if (refusal !== null) return err(refusal)

  const bans = await deps.banList()
  if (!bans.ok) return bans
  const { leaf } = presented.value
  if (!(await deps.withinRate('identities', leaf.enrollmentId))) return refuse('rate_limited')
  const object = deps.enrollmentObject(leaf.enrollmentId)
  const { known, result } = await object.admit(leaf, challenge.value, bans.value)
  facts.mode = known?.mode ?? null
  facts.identity = known?.identity ?? null
  facts.runnerId = known?.runnerId ?? null
  if (!result.ok) return result

  const { webSocket } = await object.fetch(`https://enrollment/${result.value.ticket}`, {
    headers: { upgrade: 'websocket' },
  })
  // The object went away between the two calls, as a deploy makes it do.
  return webSocket === null ? refuse('storage_unavailable') : ok(webSocket)
}

interface Proofs {
  readonly der: Bytes
  /** Null: the certificate came in TLS, which proved the key. */
  readonly signed: { readonly challenge: string; readonly signature: Bytes } | null
}

/** One certificate, proven in one way or in both. A `Client-Cert` without a proof is not looked at. */
function readProofs({ tlsCertificate, clientCert, proof }: UpgradeRequest): Outcome<Proofs> {
  const tls = tlsCertificate === null ? null : parseClientCert(tlsCertificate)
  if (tlsCertificate !== null && tls === null) return refuse('certificate_invalid')
  if (proof === null) return tls === null ? refuse('certificate_missing') : ok({ der: tls, signed: null })
  const shown = clientCert === null ? null : parseClientCert(clientCert)
  const signed = parseProof(proof)
  if (shown === null || signed === null) return refuse('proof_invalid')
  return tls !== null && !equalBytes(tls, shown) ? refuse('proofs_differ') : ok({ der: shown, signed })
}

/** The challenge that the certificate's key signed for this host, to be used up; null where TLS is the proof. */
async function spentBy(
  deps: Dependencies,
  host: string,
  presented: VerifiedLeaf,
  { signed }: Proofs,
  now: EpochSeconds,
): Promise<Outcome<SpentChallenge | null>> {
  if (signed === null) return ok(null)
  const { challenge, signature } = signed
  if (!(await presented.hasSigned(signature, utf8(proofText(host, challenge))))) return refuse('proof_invalid')
  const key = await deps.challengeKey()
  if (!key.ok) return key
  const expiresAt = await challengeExpiry(key.value, challenge, now)
  return expiresAt === null ? refuse('proof_invalid') : ok({ challenge, expiresAt })
}
