// The lineage of an enrollment's certificates: which of them may renew or connect, and how each use changes it. Pure.

import type { LeafContent } from '../../protocol/leaf.ts'
import { type EpochSeconds, seconds, subtractSeconds } from '../../protocol/time.ts'

/** Identifies a presented certificate among those of its enrollment. */
export type PresentedLeaf = Pick<LeafContent, 'serial' | 'publicKeyHash'>

export interface Lineage {
  /** The certificate that the tip was renewed from; null until the first renewal. */
  readonly parent: LeafContent | null
  readonly tip: LeafContent
  /** When the tip was first used, for a renewal or a connection; null: not yet. */
  readonly usedAt: EpochSeconds | null
}

/** The runner keeps the parent's connection until the tip's is open; a late one of the parent is no clone for so long. */
const MAKE_BEFORE_BREAK = seconds(60)

export const startLineage = (certificate: LeafContent): Lineage => ({ parent: null, tip: certificate, usedAt: null })

export type RenewalVerdict =
  /** A new tip. Store `next` before it is signed. */
  | { readonly verdict: 'advance'; readonly next: Lineage }
  /** The answer was lost: the same content is signed again. */
  | { readonly verdict: 'again'; readonly certificate: LeafContent; readonly next: Lineage }
  /** A repeated request for a certificate that is no longer fresh: refused, but no sign of a clone. */
  | { readonly verdict: 'superseded' }
  | { readonly verdict: 'clone' }

/** `candidate`: the content of a new tip. */
export function renewalVerdict(
  lineage: Lineage,
  presented: PresentedLeaf,
  candidate: LeafContent,
  now: EpochSeconds,
): RenewalVerdict {
  const { parent, tip } = lineage
  const used = markUsed(lineage, now)
  const repeats = (certificate: LeafContent): boolean => certificate.publicKeyHash === candidate.publicKeyHash

  if (presented.serial === tip.serial) {
    return repeats(tip) && isFresh(tip, candidate, now)
      ? { verdict: 'again', certificate: tip, next: used }
      : { verdict: 'advance', next: { parent: tip, tip: candidate, usedAt: null } }
  }

  const ofParent = presented.serial === parent?.serial
  if (ofParent && lineage.usedAt === null) {
    return repeats(tip) && isFresh(tip, candidate, now)
      ? { verdict: 'again', certificate: tip, next: lineage }
      : { verdict: 'advance', next: { parent, tip: candidate, usedAt: null } }
  }

  // A renewal request that arrives late or twice asks for the key of the tip or the parent. Whoever repeats it gets a
  // certificate without its key. A request for the presented certificate's own key is different: its sender holds it.
  if (presented.publicKeyHash === candidate.publicKeyHash) return { verdict: 'clone' }
  const repeated = repeats(tip) ? tip : !ofParent && parent !== null && repeats(parent) ? parent : null
  if (repeated === null) return { verdict: 'clone' }
  return isFresh(repeated, candidate, now)
    ? { verdict: 'again', certificate: repeated, next: lineage }
    : { verdict: 'superseded' }
}

export type ConnectionVerdict =
  /** Store `next` before the connection is accepted. */
  | { readonly verdict: 'accept'; readonly next: Lineage }
  /** The parent's connection came late: closed, but no sign of a clone. */
  | { readonly verdict: 'replaced' }
  | { readonly verdict: 'clone' }

export function connectionVerdict(lineage: Lineage, presented: PresentedLeaf, now: EpochSeconds): ConnectionVerdict {
  if (presented.serial === lineage.tip.serial) return { verdict: 'accept', next: markUsed(lineage, now) }
  if (presented.serial !== lineage.parent?.serial) return { verdict: 'clone' }
  if (lineage.usedAt === null) return { verdict: 'accept', next: lineage }
  return lineage.usedAt >= subtractSeconds(now, MAKE_BEFORE_BREAK) ? { verdict: 'replaced' } : { verdict: 'clone' }
}

const markUsed = (lineage: Lineage, now: EpochSeconds): Lineage =>
  lineage.usedAt === null ? { ...lineage, usedAt: now } : lineage

/** More than half of its lifetime remains, and a new one would have the same issuer and SPIFFE ID. */
const isFresh = (certificate: LeafContent, candidate: LeafContent, now: EpochSeconds): boolean =>
  certificate.issuer === candidate.issuer &&
  certificate.spiffeId === candidate.spiffeId &&
  2 * (certificate.notAfter - now) > certificate.notAfter - certificate.notBefore
