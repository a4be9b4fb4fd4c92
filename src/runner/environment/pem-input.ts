// A PEM given by a variable: inline or as the path of a file, with the accidents that env files do to line ends.

import { readBounded } from '../evidence/token-source.ts'
import { isQuoted } from './settings.ts'

/** Reads it; a file is read anew each time. `fault` names the variable and quotes nothing. */
export type PemSource = () => { readonly pem: string } | { readonly fault: string }

const PEM_BYTES = 1024 * 1024
const BEGIN = '-----BEGIN '

export function pemSource(name: string, value: string): PemSource {
  const text = unquoted(value.trim())
  if (text.includes(BEGIN)) return () => repaired(name, text)
  const path = pemPath(value)
  if (path !== null) return pemFile(name, path)
  return () => ({ fault: `${name} holds the base64 of a PEM: give the PEM itself, or the path of a file` })
}

/** The path that a value is read from; null where it is the PEM, or its base64, itself. */
export function pemPath(value: string): string | null {
  const text = unquoted(value.trim())
  // Base64 of `-----BEGIN`.
  return text.includes(BEGIN) || text.startsWith('LS0tLS1CRUdJTi') ? null : text
}

export function pemFile(name: string, path: string): PemSource {
  return () => {
    try {
      const text = readBounded(path, PEM_BYTES)
      return text.includes(BEGIN) ? repaired(name, text) : { fault: `${name}: there is no PEM in the file` }
    } catch (error) {
      const code = error instanceof Error && 'code' in error ? error.code : 'too large or not a file'
      return { fault: `${name} is neither a PEM nor the path of a file that can be read (${code})` }
    }
  }
}

/** Line ends written as `\n` can be read in only one way; doubly escaped ones and lost ones are the sender's fault. */
function repaired(name: string, text: string): { readonly pem: string } | { readonly fault: string } {
  if (text.includes('\\\\n')) return { fault: `${name} has line ends that were escaped twice (\\\\n)` }
  const pem = text.replaceAll('\\r\\n', '\n').replaceAll('\\n', '\n').replaceAll('\r\n', '\n')
  if (!pem.trim().includes('\n')) return { fault: `${name} has lost its line ends: a PEM has more than one line` }
  return { pem: pem.endsWith('\n') ? pem : `${pem}\n` }
}

const unquoted = (value: string): string => (isQuoted(value) ? value.slice(1, -1) : value)
