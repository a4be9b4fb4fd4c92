// The lineage of an enrollment's certificates: which of them may renew or connect, and how each use changes it. Pure.

import type { Bytes } from '../../protocol/bytes.ts'
import type { LeafContent } from '../../protocol/leaf.ts'
import { type EpochSeconds, seconds, subtractSeconds } from '../../protocol/time.ts'
import { type Grant, isGranted, remember } from './grants.ts'

/** A certificate as it was signed. A repeated request gets these bytes again, not another signature. */
export interface SignedLeaf extends LeafContent {
  readonly der: Bytes
}

/** The parts of a presented certificate that a lineage looks at. */
export type PresentedLeaf = Pick<LeafContent, 'serial' | 'publicKeyHash' | 'notAfter'>

/** The newest certificate. */
export interface Tip extends LeafContent {
  /** Null for a provisioned one: an operator's CA folder signed it. */
  readonly der: Bytes | null
  /** Its serial, and the serials of earlier certificates for the same key that the same request got. */
  readonly serials: readonly string[]
}

export interface Lineage {
  /** Serials of the certificate that the tip was renewed from; empty until the first renewal. */
  readonly parent: readonly string[]
  readonly tip: Tip
  /** When the tip was first used, for a renewal or a connection; null: not yet. */
  readonly usedAt: EpochSeconds | null
  /** A provisioned certificate, which may start the lineage anew; null: no certificate may. */
  readonly origin: Pick<LeafContent, 'serial' | 'notAfter'> | null
  readonly grants: readonly Grant[]
  /** A grant of the origin was forgotten, so a renewal with it may be a replayed one. It must connect first. */
  readonly originForgotten: boolean
}

/** How long after the tip a parent may still connect: the runner keeps its old connection until the new one is open. */
const MAKE_BEFORE_BREAK = seconds(60)

/** `mayStartAnew`: the runner starts with the first certificate again after each restart. */
export const startLineage = (certificate: LeafContent | SignedLeaf, mayStartAnew: boolean): Lineage => ({
  parent: [],
  tip: tipOf(certificate),
  usedAt: null,
  origin: mayStartAnew ? { serial: certificate.serial, notAfter: certificate.notAfter } : null,
  grants: [],
  originForgotten: false,
})

/** The lineage after a connection with its origin: every other certificate is retired, the grants stay. */
export const startAnew = (lineage: Lineage, origin: LeafContent, now: EpochSeconds): Lineage => ({
  ...lineage,
  parent: [],
  tip: tipOf(origin),
  usedAt: now,
})

export type RenewalVerdict =
  /** `next.tip` is the new certificate. Store `next` before it leaves. `retires`: the lineage starts anew. */
  | { readonly verdict: 'grant'; readonly next: Lineage; readonly retires: boolean }
  /** The answer was lost, so `next.tip` is given out again. */
  | { readonly verdict: 'again'; readonly next: Lineage }
  /** A replayed request: refused, but no sign of a clone, since anybody who has seen a request can replay it. */
  | { readonly verdict: 'superseded' }
  | { readonly verdict: 'clone' }

/** `candidate`: a new certificate for the key that is asked for. */
export function renewalVerdict(
  lineage: Lineage,
  presented: PresentedLeaf,
  candidate: SignedLeaf,
  now: EpochSeconds,
): RenewalVerdict {
  const { tip } = lineage
  const place = placeOf(lineage, presented)
  const mayRenew = place === 'tip' || place === 'parent' || place === 'origin'
  // A new certificate for the presented one's own key is of use only to a holder of that key.
  if (!mayRenew && presented.publicKeyHash === candidate.publicKeyHash) return { verdict: 'clone' }

  const sameKey = candidate.publicKeyHash === tip.publicKeyHash
  if (sameKey && isRepeatable(tip, candidate, now)) {
    return { verdict: 'again', next: place === 'tip' ? markUsed(lineage, now) : lineage }
  }
  const known = isGranted(lineage.grants, presented, candidate.publicKeyHash)
  if (sameKey ? !mayRenew : known) return { verdict: 'superseded' }

  const remembered = withGrant(lineage, presented, candidate, now)
  switch (place) {
    case 'tip':
      return grant({ ...remembered, parent: tip.serials, tip: tipOf(candidate), usedAt: null })
    case 'parent':
      return grant({ ...remembered, tip: sameKey ? reissued(tip, candidate) : tipOf(candidate) })
    case 'origin':
      if (sameKey) return grant({ ...remembered, tip: reissued(tip, candidate) })
      if (lineage.originForgotten) return { verdict: 'superseded' }
      return grant({ ...remembered, parent: [presented.serial], tip: tipOf(candidate), usedAt: null }, true)
    case 'replaced':
    case 'outside':
      return { verdict: 'clone' }
  }
}

/** The verdict on a repeated request for an enrollment. Null: another key, or the enrollment has renewed. */
export function repeatedEnrollment(
  lineage: Lineage,
  candidate: SignedLeaf,
  now: EpochSeconds,
): Extract<RenewalVerdict, { verdict: 'again' | 'grant' }> | null {
  const { parent, tip } = lineage
  if (parent.length > 0 || tip.publicKeyHash !== candidate.publicKeyHash) return null
  if (isRepeatable(tip, candidate, now)) return { verdict: 'again', next: lineage }
  return grant({ ...lineage, tip: reissued(tip, candidate) })
}

export type ConnectionVerdict =
  /** Store `next` before the connection is accepted. */
  | { readonly verdict: 'accept'; readonly next: Lineage }
  /** A connection with the origin of a lineage that went on: the lineage starts anew when the hello comes. */
  | { readonly verdict: 'anew' }
  /** The parent connected just after the tip: closed, but no sign of a clone. */
  | { readonly verdict: 'late' }
  | { readonly verdict: 'clone' }

export function connectionVerdict(lineage: Lineage, presented: PresentedLeaf, now: EpochSeconds): ConnectionVerdict {
  switch (placeOf(lineage, presented)) {
    case 'tip':
      return { verdict: 'accept', next: markUsed(lineage, now) }
    case 'parent':
      return { verdict: 'accept', next: lineage }
    case 'origin':
      return { verdict: 'anew' }
    case 'replaced':
      return (lineage.usedAt ?? now) >= subtractSeconds(now, MAKE_BEFORE_BREAK)
        ? { verdict: 'late' }
        : { verdict: 'clone' }
    case 'outside':
      return { verdict: 'clone' }
  }
}

/** Where a certificate stands in the lineage. The parent is `parent` while the tip is unused, `replaced` afterwards. */
type Place = 'tip' | 'parent' | 'origin' | 'replaced' | 'outside'

function placeOf({ parent, tip, usedAt, origin }: Lineage, { serial }: PresentedLeaf): Place {
  if (tip.serials.includes(serial)) return 'tip'
  const isParent = parent.includes(serial)
  if (isParent && usedAt === null) return 'parent'
  if (origin?.serial === serial) return 'origin'
  return isParent ? 'replaced' : 'outside'
}

const grant = (next: Lineage, retires = false): Extract<RenewalVerdict, { verdict: 'grant' }> => ({
  verdict: 'grant',
  next,
  retires,
})

function tipOf(certificate: LeafContent | SignedLeaf): Tip {
  const der = 'der' in certificate ? certificate.der : null
  return { ...certificate, der, serials: [certificate.serial] }
}

/** The same key got a newer certificate. The holder of the key may use either, so both count as the tip. */
const reissued = (tip: Tip, candidate: SignedLeaf): Tip => ({
  ...tipOf(candidate),
  serials: [...tip.serials, candidate.serial].slice(-SERIALS_KEPT),
})

/** Enough: a tip is reissued after half its life, and its parent can be presented for little more than one life. */
const SERIALS_KEPT = 8

function withGrant(
  lineage: Lineage,
  presented: PresentedLeaf,
  { publicKeyHash }: LeafContent,
  now: EpochSeconds,
): Lineage {
  const { grants, forgotten } = remember(lineage.grants, presented, publicKeyHash, now)
  const lost = forgotten.some((one) => one.presented === lineage.origin?.serial)
  return { ...lineage, grants, originForgotten: lineage.originForgotten || lost }
}

const markUsed = (lineage: Lineage, now: EpochSeconds): Lineage =>
  lineage.usedAt === null ? { ...lineage, usedAt: now } : lineage

const isRepeatable = (tip: Tip, candidate: LeafContent, now: EpochSeconds): boolean =>
  tip.der !== null && isFresh(tip, candidate, now)

/** More than half of its lifetime remains, and a new one would have the same issuer and SPIFFE ID. */
export const isFresh = (certificate: LeafContent, candidate: LeafContent, now: EpochSeconds): boolean =>
  certificate.issuer === candidate.issuer &&
  certificate.spiffeId === candidate.spiffeId &&
  2 * (certificate.notAfter - now) > certificate.notAfter - certificate.notBefore
