// The steps of a connection: early data → proofs → certificate → reauthorize and lineage, in one call → socket.

import { type Bytes, equalBytes, utf8 } from '../../protocol/bytes.ts'
import type { VerifiedLeaf } from '../../protocol/leaf.ts'
import { type Outcome, refuse } from '../../protocol/refusals.ts'
import { err, ok } from '../../protocol/result.ts'
import { toEpochSeconds } from '../../protocol/time.ts'
import { parseClientCert, parseProof, proofText } from '../../protocol/tunnel.ts'
import { connectionRefusal } from '../ca/presented.ts'
import type { Challenge } from '../fleet/used-challenges.ts'
import { challengeExpiry } from './challenge.ts'
import type { Dependencies } from './dependencies.ts'
import { type Caller, type Facts, noteLeaf, recorded } from './event.ts'
import { clientKey } from './rate-limit.ts'

/** The parts of a WebSocket upgrade that may prove a certificate, none of them verified. Null where one is missing. */
export interface UpgradeRequest {
  /** Host of the request's URL, with its port where that is not the default. */
  readonly host: string
  readonly earlyData: string | null
  /** The client certificate of the TLS connection. Whether the edge accepted it is not used. */
  readonly tlsCertificate: string | null
  /** A request header, so the client can write anything: used only with `proof`. */
  readonly clientCert: string | null
  readonly proof: string | null
}

/** The value is the client's end of the socket; the enrollment's object holds the other. */
export const openTunnel = async (
  deps: Dependencies,
  caller: Caller,
  upgrade: Outcome<UpgradeRequest>,
): Promise<Outcome<WebSocket>> => {
  const opened = await recorded(
    deps,
    caller,
    (facts) => steps(deps, caller, upgrade, facts),
    (_, { late }) => (late ? 'replaced' : 'connected'),
  )
  return opened.ok ? ok(opened.value.socket) : opened
}

interface Opened {
  readonly socket: WebSocket
  /** A newer certificate of the lineage is in use already, so the object closes the socket at once. */
  readonly late: boolean
}

async function steps(
  deps: Dependencies,
  caller: Caller,
  upgrade: Outcome<UpgradeRequest>,
  facts: Facts,
): Promise<Outcome<Opened>> {
  const now = toEpochSeconds(caller.at)
  if (!upgrade.ok) return upgrade
  // RFC 8470 §5.1: what came before the handshake ended can be replayed.
  if (upgrade.value.earlyData !== null) return refuse('early_data')

  const proofs = readProofs(upgrade.value)
  if (!proofs.ok) return proofs
  const presented = await deps.verifyLeaf(proofs.value.der)
  if (!presented.ok) return presented
  const challenge = await verifyChallenge(deps, upgrade.value.host, presented.value, proofs.value)
  if (!challenge.ok) return challenge
  noteLeaf(facts, presented.value.leaf)
  const refusal = connectionRefusal(presented.value, now)
  if (refusal !== null) return err(refusal)

  const { leaf, der } = presented.value
  const bans = await deps.shards.of(leaf.tenant).banList(caller.waitUntil)
  if (!bans.ok) return bans
  // A replayed challenge uses up its own rate alone. The object bounds how many other challenges are used.
  const asked = clientKey(leaf.tenant, `${leaf.enrollmentId}/${challenge.value?.challenge ?? 'tls'}`)
  if (!(await deps.withinRate('identities', asked))) return refuse('rate_limited')
  const object = deps.enrollmentObject(leaf.enrollmentId)
  const { known, result } = await object.admit({ ...leaf, der }, challenge.value, bans.value)
  facts.mode = known?.mode ?? null
  facts.identity = known?.identity ?? null
  facts.runnerId = known?.runnerId ?? null
  if (!result.ok) return result

  const { webSocket } = await object.fetch(`https://enrollment/${result.value.ticket}`, {
    headers: { upgrade: 'websocket' },
  })
  // The object restarted between the two calls, as at a deploy.
  return webSocket === null ? refuse('storage_unavailable') : ok({ socket: webSocket, late: result.value.late })
}

interface Proofs {
  readonly der: Bytes
  /** Null where TLS proved the key. */
  readonly signed: { readonly challenge: string; readonly signature: Bytes } | null
}

/** The one certificate that TLS, a signed challenge or both prove. `Client-Cert` without a proof is ignored. */
function readProofs({ tlsCertificate, clientCert, proof }: UpgradeRequest): Outcome<Proofs> {
  const tls = tlsCertificate === null ? null : parseClientCert(tlsCertificate)
  if (tlsCertificate !== null && tls === null) return refuse('certificate_invalid')
  if (proof === null) return tls === null ? refuse('certificate_missing') : ok({ der: tls, signed: null })
  const sent = clientCert === null ? null : parseClientCert(clientCert)
  const signed = parseProof(proof)
  if (sent === null || signed === null) return refuse('proof_invalid')
  return tls !== null && !equalBytes(tls, sent) ? refuse('proofs_differ') : ok({ der: sent, signed })
}

/** The challenge that the certificate's key signed for this host; null where TLS is the proof. */
async function verifyChallenge(
  deps: Dependencies,
  host: string,
  presented: VerifiedLeaf,
  { signed }: Proofs,
): Promise<Outcome<Challenge | null>> {
  if (signed === null) return ok(null)
  const { challenge, signature } = signed
  if (!(await presented.hasSigned(signature, utf8(proofText(host, challenge))))) return refuse('proof_invalid')
  const key = await deps.challengeKey()
  if (!key.ok) return key
  const expiresAt = await challengeExpiry(key.value, challenge)
  return expiresAt === null ? refuse('proof_invalid') : ok({ challenge, expiresAt })
}
