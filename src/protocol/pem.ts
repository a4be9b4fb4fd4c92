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

/**
 * Text outside the blocks: refused in what a runner sends; skipped in a file of the operator's, where
 * `openssl x509 -text` and comments put some (RFC 7468 §2 allows it).
 */
export type SurroundingText = 'refused' | 'skipped'

/**
 * All blocks of `text`, in order, at least one and at most `limit`. Lines end in LF or CRLF. The error is for a person
 * and quotes nothing of the text.
 */
export function parsePem(
  text: string,
  limit: number,
  surroundings: SurroundingText = 'refused',
): Result<readonly PemBlock[], string> {
  const blocks: PemBlock[] = []
  let label: string | null = null
  let body = ''
  for (const ended of text.split('\n')) {
    const line = ended.endsWith('\r') ? ended.slice(0, -1) : ended
    if (label === null) {
      if (line === '' && blocks.length > 0) continue
      label = labelOf(line, 'BEGIN')
      if (label === null) {
        if (surroundings === 'skipped' && !line.startsWith(BOUNDARY) && !line.includes('\\n')) continue
        return err(outside(line, blocks.length > 0))
      }
      if (blocks.length === limit) return err(tooMany(limit))
      body = ''
    } else if (line.startsWith(BOUNDARY)) {
      if (labelOf(line, 'END') !== label) return err('the END line does not match the BEGIN line')
      const bytes = decodeBase64(body)
      if (bytes === null) return err('the PEM block holds something other than base64')
      blocks.push({ label, bytes })
      label = null
    } else if (line === '') return err('an empty line or a header within the PEM block')
    else body += line
  }
  if (label !== null) return err('the PEM block has no END line')
  return blocks.length === 0 ? err('no PEM block') : ok(blocks)
}

/** OpenSSL writes it before an EC key (RFC 5480 §2.1.1), which names its curve itself, too. */
const EC_PARAMETERS = 'EC PARAMETERS'

/** The blocks of an operator's file. Text around them and `EC PARAMETERS` are skipped. */
export function parsePemFile(text: string, limit: number): Result<readonly PemBlock[], string> {
  // There is at most one of them before each key.
  const blocks = parsePem(text, 2 * limit, 'skipped')
  if (!blocks.ok) return blocks
  const kept = blocks.value.filter(({ label }) => label !== EC_PARAMETERS)
  if (kept.length > limit) return err(tooMany(limit))
  return kept.length === 0 ? err('no PEM block') : ok(kept)
}

/** The certificates (DER) of an operator's file: a CA or a trust bundle. Any other block is refused. */
export function parseCertificateFile(text: string, limit: number): Result<readonly Bytes[], string> {
  const blocks = parsePemFile(text, limit)
  if (!blocks.ok) return blocks
  // The label is not quoted: the block may be a private key.
  return blocks.value.every(({ label }) => label === 'CERTIFICATE')
    ? ok(blocks.value.map(({ bytes }) => bytes))
    : err('a PEM block that is not a CERTIFICATE')
}

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
