// The certificate profile of a leaf: the grant that the CA issues from, its serial, subject and validity. Pure.

import { type Bytes, hex } from '../../protocol/bytes.ts'
import { everyCharacter, isHexDigit } from '../../protocol/characters.ts'
import type { Leaf, LeafContent, LeafSubject } from '../../protocol/leaf.ts'
import { NO_REVOCATION_LIFETIME, NOT_BEFORE_BACKDATE } from '../../protocol/limits.ts'
import { isMode, MODES, type ModeTraits } from '../../protocol/modes.ts'
import { type Outcome, refuse } from '../../protocol/refusals.ts'
import { ok } from '../../protocol/result.ts'
import { formatSpiffeId, parseSpiffeId, type RunnerSpiffeId } from '../../protocol/spiffe-id.ts'
import { addSeconds, between, type EpochSeconds, rfc3339, type Seconds, subtractSeconds } from '../../protocol/time.ts'
import { isUuidv7 } from '../../protocol/uuid.ts'
import { isAwsAccount, isClusterName } from '../../trust/grammar.ts'

/** The content of a certificate, authorized and on record, and the key that it is for. */
export interface Grant extends Leaf {
  /** SubjectPublicKeyInfo of a P-256 key, 91 octets. */
  readonly spki: Bytes
}

const SERIAL_BYTES = 16

/** A random serial whose first octet is 0x40 to 0x7f: positive, never zero and minimal in DER; 126 random bits. */
export function newSerial(): string {
  const serial = crypto.getRandomValues(new Uint8Array(SERIAL_BYTES))
  serial[0] = 0x40 | ((serial[0] as number) & 0x3f)
  return hex(serial)
}

/** The octets of a serial in the form of `newSerial`, or null. */
export function serialBytes(serial: string): Bytes | null {
  if (serial.length !== SERIAL_BYTES * 2 || !everyCharacter(serial, isHexDigit)) return null
  const bytes = new Uint8Array(SERIAL_BYTES)
  for (let i = 0; i < SERIAL_BYTES; i++) bytes[i] = Number.parseInt(serial.slice(i * 2, i * 2 + 2), 16)
  const [first = 0] = bytes
  return first >= 0x40 && first <= 0x7f ? bytes : null
}

/** How the holder of a leaf once proved itself. */
export type Origin = Pick<LeafSubject, 'mode' | 'source'>

export const formatOrganizationalUnit = ({ mode, source }: Origin): string => `${mode}:${source}`

/** The parts of an organizational unit, or null where it does not have the form. */
export function parseOrganizationalUnit(text: string): Origin | null {
  const colon = text.indexOf(':')
  const [mode, source] = [text.slice(0, colon), text.slice(colon + 1)]
  return colon > 0 && isMode(mode) && SOURCES[MODES[mode].source](source) ? { mode, source } : null
}

const SOURCES: Readonly<Record<ModeTraits['source'], (text: string) => boolean>> = {
  none: (text) => text === '',
  account: isAwsAccount,
  cluster: isClusterName,
}

/** Whether a certificate is so short-lived that it says noRevAvail (RFC 9608). */
export const saysNoRevAvail = ({ notBefore, notAfter }: Validity): boolean =>
  between(addSeconds(notBefore, NOT_BEFORE_BACKDATE), notAfter) <= NO_REVOCATION_LIFETIME

/** Whether a grant keeps to the profile. */
export function isGrant(grant: Grant): boolean {
  const id = parseSpiffeId(grant.spiffeId)
  return (
    serialBytes(grant.serial) !== null &&
    isUuidv7(grant.enrollmentId) &&
    id?.tenant === grant.tenant &&
    parseOrganizationalUnit(formatOrganizationalUnit(grant)) !== null &&
    Number.isInteger(grant.notBefore) &&
    Number.isInteger(grant.notAfter) &&
    grant.notBefore < grant.notAfter
  )
}

export interface Validity {
  readonly notBefore: EpochSeconds
  readonly notAfter: EpochSeconds
}

/**
 * Times of a certificate issued now: from 60 s ago to `lifetime` from now, never past those of CA_CERT. With less than
 * one lifetime left there, or none yet, the refusal is `ca_not_configured`.
 */
export function validityOf(
  { validity }: { readonly validity: Validity },
  now: EpochSeconds,
  lifetime: Seconds,
): Outcome<Validity> {
  const notAfter = addSeconds(now, lifetime)
  if (now < validity.notBefore) {
    return refuse('ca_not_configured', { detail: `CA_CERT is not valid before ${rfc3339(validity.notBefore)}` })
  }
  if (now > validity.notAfter) {
    return refuse('ca_not_configured', { detail: `CA_CERT ended ${rfc3339(validity.notAfter)}` })
  }
  if (notAfter > validity.notAfter) {
    const left = `ends ${rfc3339(validity.notAfter)}, less than one certificate lifetime (${lifetime} s) from now`
    return refuse('ca_not_configured', { detail: `CA_CERT ${left}` })
  }
  return ok({ notBefore: subtractSeconds(now, NOT_BEFORE_BACKDATE), notAfter })
}

/**
 * The content of a new certificate, issued now for `lifetime`. Refused as `validityOf` does: while the CA cannot issue
 * a whole lifetime.
 */
export function newLeafContent(
  authority: { readonly validity: Validity; readonly issuerKeyId: string },
  now: EpochSeconds,
  lifetime: Seconds,
  { publicKeyHash, ...id }: RunnerSpiffeId & Pick<LeafContent, 'publicKeyHash'>,
): Outcome<LeafContent> {
  const validity = validityOf(authority, now, lifetime)
  if (!validity.ok) return validity
  const { issuerKeyId: issuer } = authority
  return ok({ serial: newSerial(), publicKeyHash, spiffeId: formatSpiffeId(id), ...validity.value, issuer })
}
