// PEM (RFC 7468), strict: what is between the lines of a block is canonical base64 and nothing else. Pure.

import { type Bytes, decodeBase64, encodeBase64 } from '../../protocol/base64url.ts'

const BOUNDARY = '-----'

/** One PEM block, lines of 64 characters (RFC 7468 §2), with a line end at its end. */
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

/** What is wrong with a PEM text, for a person: it quotes nothing of it. */
export interface PemFault {
  readonly fault: string
}

/**
 * All blocks of `text`, in order, at least one and at most `limit`. Lines end in LF or CRLF; nothing stands before,
 * between or after the blocks but empty lines at the end of one.
 */
export function parsePem(text: string, limit: number): readonly PemBlock[] | PemFault {
  const blocks: PemBlock[] = []
  let label: string | null = null
  let body = ''
  for (const ended of text.split('\n')) {
    const line = ended.endsWith('\r') ? ended.slice(0, -1) : ended
    if (label === null) {
      if (line === '' && blocks.length > 0) continue
      label = labelOf(line, 'BEGIN')
      if (label === null) return { fault: outside(line, blocks.length > 0) }
      if (blocks.length === limit)
        return { fault: limit === 1 ? 'more than one PEM block' : `over ${limit} PEM blocks` }
      body = ''
    } else if (line.startsWith(BOUNDARY)) {
      if (labelOf(line, 'END') !== label) return { fault: 'the END line does not match the BEGIN line' }
      const bytes = decodeBase64(body)
      if (bytes === null) return { fault: 'the PEM block holds something other than base64' }
      blocks.push({ label, bytes })
      label = null
    } else if (line === '') return { fault: 'an empty line or a header within the PEM block' }
    else body += line
  }
  if (label !== null) return { fault: 'the PEM block has no END line' }
  return blocks.length === 0 ? { fault: 'no PEM block' } : blocks
}

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

/** Whether `parsePem` refused. */
export const isPemFault = (parsed: readonly PemBlock[] | PemFault): parsed is PemFault => 'fault' in parsed
