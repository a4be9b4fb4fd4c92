// Which certificates of an enrollment may be used, and what each use makes of its lineage. Pure.

import type { LeafContent } from '../../protocol/leaf.ts'
import { type EpochSeconds, seconds, subtractSeconds } from '../../protocol/time.ts'

/** Identifies a presented certificate among those of its enrollment. */
export type PresentedLeaf = Pick<LeafContent, 'serial' | 'publicKeyHash'>

export interface Lineage {
  /** What the tip was renewed from; null until the first renewal. */
  readonly parent: LeafContent | null
  readonly tip: LeafContent
  /** When the tip was first used, for a renewal or a connection; null: not yet. */
  readonly usedAt: EpochSeconds | null
}

/** The runner holds the parent's connection while the tip's opens: for this long they may cross on the wire. */
const MAKE_BEFORE_BREAK = seconds(60)

export const startLineage = (certificate: LeafContent): Lineage => ({ parent: null, tip: certificate, usedAt: null })

export type RenewalVerdict =
  /** A new tip; `next` is to be stored before it is signed. */
  | { readonly verdict: 'advance'; readonly next: Lineage }
  /** The same content is signed again: the answer was lost. */
  | { readonly verdict: 'again'; readonly certificate: LeafContent; readonly next: Lineage }
  /** A repeated request whose certificate has done its time: refused, and evidence of nothing. */
  | { readonly verdict: 'superseded' }
  | { readonly verdict: 'clone' }

/** `candidate` is the certificate that a new tip would be. */
export function renewalVerdict(
  lineage: Lineage,
  presented: PresentedLeaf,
  candidate: LeafContent,
  now: EpochSeconds,
): RenewalVerdict {
  const { parent, tip } = lineage
  const used = use(lineage, now)
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

  // A request that went out before the lineage went on names the key of a certificate that came of it. It may arrive
  // late or twice, and gives whoever sends it nothing but a certificate for a key that it does not hold. One that asks
  // for the shown certificate's own key is no such thing: its holder would come by a second life of the same key.
  if (presented.publicKeyHash === candidate.publicKeyHash) return { verdict: 'clone' }
  const repeated = repeats(tip) ? tip : !ofParent && parent !== null && repeats(parent) ? parent : null
  if (repeated === null) return { verdict: 'clone' }
  return isFresh(repeated, candidate, now)
    ? { verdict: 'again', certificate: repeated, next: lineage }
    : { verdict: 'superseded' }
}

export type ConnectionVerdict =
  /** `next` is to be stored before the connection is accepted. */
  | { readonly verdict: 'accept'; readonly next: Lineage }
  /** The parent came late, as happens: closed, and evidence of nothing. */
  | { readonly verdict: 'replaced' }
  | { readonly verdict: 'clone' }

export function connectionVerdict(lineage: Lineage, presented: PresentedLeaf, now: EpochSeconds): ConnectionVerdict {
  if (presented.serial === lineage.tip.serial) return { verdict: 'accept', next: use(lineage, now) }
  if (presented.serial !== lineage.parent?.serial) return { verdict: 'clone' }
  if (lineage.usedAt === null) return { verdict: 'accept', next: lineage }
  return lineage.usedAt >= subtractSeconds(now, MAKE_BEFORE_BREAK) ? { verdict: 'replaced' } : { verdict: 'clone' }
}

const use = (lineage: Lineage, now: EpochSeconds): Lineage =>
  lineage.usedAt === null ? { ...lineage, usedAt: now } : lineage

/** Over half its life remains, and it would be signed the same today: by the same issuer, with the same name. */
const isFresh = (certificate: LeafContent, candidate: LeafContent, now: EpochSeconds): boolean =>
  certificate.issuer === candidate.issuer &&
  certificate.spiffeId === candidate.spiffeId &&
  2 * (certificate.notAfter - now) > certificate.notAfter - certificate.notBefore
