// The lineage of an enrollment's certificates: which of them may renew or connect, and how each use changes it. Pure.

import type { Bytes } from '../../protocol/bytes.ts'
import type { LeafContent } from '../../protocol/leaf.ts'
import { type EpochSeconds, seconds, subtractSeconds } from '../../protocol/time.ts'
import { type Grant, isGranted, remember } from './grants.ts'

/** A certificate as it was signed: whoever asks for it again gets these bytes, not another signature. */
export interface SignedLeaf extends LeafContent {
  readonly der: Bytes
}

/** What is compared of a presented certificate. */
export type PresentedLeaf = Pick<LeafContent, 'serial' | 'publicKeyHash' | 'notAfter'>

/** The newest certificate. */
export interface Tip extends LeafContent {
  /** Null for a provisioned one: an operator's CA folder signed it. */
  readonly der: Bytes | null
  /** Its serial, and those of the earlier ones that the same request got: all have the same key. */
  readonly serials: readonly string[]
}

export interface Lineage {
  /** Serials of the certificate that the tip was renewed from; none until the first renewal. */
  readonly parent: readonly string[]
  readonly tip: Tip
  /** When the tip was first used, for a renewal or a connection; null: not yet. */
  readonly usedAt: EpochSeconds | null
  /** Serial and end of a provisioned certificate, which may start the lineage anew; null: none may. */
  readonly origin: Pick<LeafContent, 'serial' | 'notAfter'> | null
  readonly grants: readonly Grant[]
  /** A renewal with the origin was forgotten, so one that is not known may be an old request: it must connect first. */
  readonly originForgotten: boolean
}

/** The runner keeps the parent's connection until the tip's is open; a late one of the parent is no clone for so long. */
const MAKE_BEFORE_BREAK = seconds(60)

/** `mayStartAnew`: a runner has the first certificate again after each restart. */
export const startLineage = (certificate: LeafContent | SignedLeaf, mayStartAnew: boolean): Lineage => ({
  parent: [],
  tip: tipOf(certificate),
  usedAt: null,
  origin: mayStartAnew ? { serial: certificate.serial, notAfter: certificate.notAfter } : null,
  grants: [],
  originForgotten: false,
})

/** The lineage after a connection with its origin: every other certificate is retired. What was granted stays known. */
export const startAnew = (lineage: Lineage, origin: LeafContent, now: EpochSeconds): Lineage => ({
  ...lineage,
  parent: [],
  tip: tipOf(origin),
  usedAt: now,
})

export type RenewalVerdict =
  /** `next.tip` is the new certificate. Store `next` before it leaves. `retires`: the lineage starts anew. */
  | { readonly verdict: 'grant'; readonly next: Lineage; readonly retires: boolean }
  /** The answer was lost: `next.tip` is given out again. */
  | { readonly verdict: 'again'; readonly next: Lineage }
  /** An old request that came again: refused, but no sign of a clone, since whoever repeats it need not hold a key. */
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
  // Whoever gets the certificate for the presented one's key holds that key.
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

/** An enrollment that is asked for again with its key. Null: it has renewed meanwhile. */
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
  /** The origin after its lineage went on: the lineage starts anew once the runner has said hello. */
  | { readonly verdict: 'anew' }
  /** The parent's connection came late: closed, but no sign of a clone. */
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

/** `parent`: while the tip is unused; `replaced`: since it was used. */
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

/** The same key got a newer certificate. Whoever holds the key may hold either, so both are the tip. */
const reissued = (tip: Tip, candidate: SignedLeaf): Tip => ({
  ...tipOf(candidate),
  serials: [...tip.serials, candidate.serial].slice(-SERIALS_KEPT),
})

/** A certificate is given anew after half its life, and the one it came from can be presented for little more than one. */
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
