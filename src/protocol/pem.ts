// Reads and writes PEM (RFC 7468): strictly from the network, leniently from an operator's files. Pure.

import { type Bytes, decodeBase64, encodeBase64 } from './bytes.ts'
import { err, ok, type Result } from './result.ts'

const BOUNDARY = '-----'

/** One PEM block in lines of 64 characters (RFC 7468 §2), the last one ended too. */
export function encodePem(label: string, bytes: Uint8Array): string {
  const text = encodeBase64(bytes)
  let pem = `${BOUNDARY}BEGIN ${label}${BOUNDARY}\n`
  for (let i = 0; i < text.length; i += 64) pem += `${text.slice(i, i + 64)}\n`
  return `${pem}${BOUNDARY}END ${label}${BOUNDARY}\n`
}

export interface PemBlock {
  readonly label: string
  readonly bytes: Bytes
}

/** A block of a text: its bytes, or the fault, which quotes nothing of it. */
interface Found {
  readonly label: string
  /** The line of the text that it begins on, from 1. */
  readonly line: number
  readonly content: Result<Bytes, string>
}

/**
 * All blocks of a text from the network, in order, at least one and at most `limit`. Lines end in LF or CRLF. Text
 * outside the blocks is refused. The error is for a person and quotes nothing of the text.
 */
export function parsePem(text: string, limit: number): Result<readonly PemBlock[], string> {
  const found = findBlocks(text, limit, 'refused')
  if (!found.ok) return found
  return all(found.value.map(({ label, content }) => (content.ok ? ok({ label, bytes: content.value }) : content)))
}

/** OpenSSL writes this block before an EC key (RFC 5480 §2.1.1). It is not needed: the key names its curve, too. */
const EC_PARAMETERS = 'EC PARAMETERS'

/** The blocks of an operator's file. Text around them and `EC PARAMETERS` are skipped. The error names the place. */
export function parsePemFile(text: string, limit: number): Result<readonly PemBlock[], string> {
  const found = findFileBlocks(text, limit)
  if (!found.ok) return found
  return all(
    found.value.map(({ label, content }, i) =>
      content.ok ? ok({ label, bytes: content.value }) : err(`${placeOf(found.value, i)}: ${content.error}`),
    ),
  )
}

const NO_CERTIFICATE = 'a PEM block that is not a CERTIFICATE'

/** The certificates (DER) of an operator's file in which every one is needed: an unreadable block is an error. */
export function parseCertificateFile(text: string, limit: number): Result<readonly Bytes[], string> {
  const blocks = parsePemFile(text, limit)
  if (!blocks.ok) return blocks
  // The label is not quoted: the block may be a private key.
  return blocks.value.every(({ label }) => label === 'CERTIFICATE')
    ? ok(blocks.value.map(({ bytes }) => bytes))
    : err(NO_CERTIFICATE)
}

export interface CertificateBundle {
  /** DER, at least one. */
  readonly certificates: readonly Bytes[]
  /** For each block that is no certificate: its place, and what is wrong with it. */
  readonly passedOver: readonly string[]
}

/**
 * The certificates of an operator's file that lists whom to trust. A block that cannot be read is passed over, since the
 * other certificates do not depend on it. It is an error where no certificate is left, or a block is a private key.
 */
export function parseCertificateBundle(
  text: string,
  limit: number,
  isCertificate: (der: Bytes) => boolean,
): Result<CertificateBundle, string> {
  const found = findFileBlocks(text, limit)
  if (!found.ok) return found
  if (found.value.some(({ label }) => label.endsWith('PRIVATE KEY'))) return err(NO_CERTIFICATE)
  const read = found.value.map(({ label, content }, i) => {
    const fault = label === 'CERTIFICATE' ? 'cannot be read as a certificate' : 'is not a CERTIFICATE'
    const place = placeOf(found.value, i)
    if (!content.ok) return err(`${place}: ${content.error}`)
    return label === 'CERTIFICATE' && isCertificate(content.value) ? content : err(`${place} ${fault}`)
  })
  const passedOver = read.flatMap((one) => (one.ok ? [] : [one.error]))
  const certificates = read.flatMap((one) => (one.ok ? [one.value] : []))
  return certificates.length === 0 ? err(passedOver[0] ?? NO_BLOCK) : ok({ certificates, passedOver })
}

const placeOf = (found: readonly Found[], at: number): string => `block ${at + 1} at line ${found[at]?.line}`

/** The first error, or every value. */
function all<T>(results: readonly Result<T, string>[]): Result<readonly T[], string> {
  const values: T[] = []
  for (const result of results) {
    if (!result.ok) return result
    values.push(result.value)
  }
  return ok(values)
}

const NO_BLOCK = 'no PEM block'

function findFileBlocks(text: string, limit: number): Result<readonly Found[], string> {
  // There is at most one EC PARAMETERS before each key.
  const found = findBlocks(text, 2 * limit, 'skipped')
  if (!found.ok) return found
  const kept = found.value.filter(({ label }) => label !== EC_PARAMETERS)
  if (kept.length > limit) return err(tooMany(limit))
  return kept.length === 0 ? err(NO_BLOCK) : ok(kept)
}

/**
 * What happens to text outside the blocks and to white space around a line. It is refused in what a runner sends. It is
 * skipped in an operator's file, where comments and `openssl x509 -text` put some (RFC 7468 §2 allows it).
 */
type SurroundingText = 'refused' | 'skipped'

/** A block that is still open. */
interface Open {
  readonly label: string
  readonly line: number
  body: string
  fault: string | null
}

/** A block with a fault ends where the next one begins at the latest. */
function findBlocks(text: string, limit: number, surroundings: SurroundingText): Result<readonly Found[], string> {
  const found: Found[] = []
  let open: Open | null = null
  for (const [i, withEnd] of text.split('\n').entries()) {
    const whole = withEnd.endsWith('\r') ? withEnd.slice(0, -1) : withEnd
    const line = surroundings === 'skipped' ? whole.trim() : whole
    const label = line.startsWith(BOUNDARY) ? labelOf(line, 'BEGIN') : null
    if (label !== null) {
      if (open !== null) found.push(unended(open))
      if (found.length === limit) return err(tooMany(limit))
      open = { label, line: i + 1, body: '', fault: null }
    } else if (open === null) {
      if (line === '' && (found.length > 0 || surroundings === 'skipped')) continue
      if (surroundings === 'refused' || line.includes('\\n')) return err(outside(line, found.length > 0))
      // The BEGIN line of this block was damaged and has been skipped as text.
      if (line.startsWith(BOUNDARY))
        found.push({ label: '', line: i + 1, content: err('an END line without a BEGIN line') })
    } else if (line.startsWith(BOUNDARY)) {
      found.push(ended(open, line))
      open = null
    } else if (line === '') open.fault = 'an empty line or a header within the PEM block'
    else open.body += line
  }
  if (open !== null) found.push(unended(open))
  return found.length === 0 ? err(NO_BLOCK) : ok(found)
}

const unended = ({ label, line }: Open): Found => ({ label, line, content: err(NO_END) })

const ended = (open: Open, end: string): Found => ({
  label: open.label,
  line: open.line,
  content: open.fault === null ? contentOf(open, end) : err(open.fault),
})

function contentOf({ label, body }: Open, line: string): Found['content'] {
  if (labelOf(line, 'END') !== label) return err('the END line does not match the BEGIN line')
  const bytes = decodeBase64(body)
  return bytes === null ? err('the PEM block holds something other than base64') : ok(bytes)
}

const NO_END = 'the PEM block has no END line'

const tooMany = (limit: number): string => (limit === 1 ? 'more than one PEM block' : `over ${limit} PEM blocks`)

function outside(line: string, after: boolean): string {
  if (line.includes('\\n')) return 'line ends are written as the two characters \\ and n'
  return after ? 'something follows the PEM block' : 'it does not begin with a PEM BEGIN line'
}

function labelOf(line: string, kind: 'BEGIN' | 'END'): string | null {
  const start = `${BOUNDARY}${kind} `
  if (!line.startsWith(start) || !line.endsWith(BOUNDARY) || line.length <= start.length + BOUNDARY.length) return null
  const label = line.slice(start.length, -BOUNDARY.length)
  return label.includes('-') ? null : label
}
