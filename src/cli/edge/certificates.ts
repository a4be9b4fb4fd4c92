// Makes the local edge's certificates on the first start and keeps them in the state folder: a development CA, which a
// deployed Worker refuses, and the certificate of the TLS port, which has a root of its own, as at Cloudflare.

import { createPrivateKey, X509Certificate } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { writeAtomically } from '../../node/atomic-file.ts'
import { systemClock, toEpochSeconds } from '../../protocol/time.ts'
import type { StateFolder } from './state.ts'

/** PEM: a private key, and its certificate with those above it. */
interface Kept {
  readonly key: string
  readonly chain: string
}

export interface ServerCertificate extends Kept {
  /** Path of what a client must trust. */
  readonly caFile: string
}

/** The Worker's secrets. */
export async function developmentCa(state: StateFolder): Promise<{ CA_KEY: string; CA_CERT: string }> {
  const { key, chain } = await keep(state, 'ca', async () => {
    const { createCa } = await import('../ca/create.ts')
    const { issuingKey, issuing } = await createCa({ development: true, now: now() })
    return { key: issuingKey, chain: issuing }
  })
  return { CA_KEY: key, CA_CERT: chain }
}

export async function serverCertificate(state: StateFolder): Promise<ServerCertificate> {
  const caFile = join(state.own, 'tls-root.pem')
  const kept = await keep(state, 'tls', async () => {
    const { createCa, createServerCertificate } = await import('../ca/create.ts')
    const { root, issuingKey, issuing } = await createCa({ development: true, now: now() })
    const server = await createServerCertificate({ key: issuingKey, certificate: issuing }, now())
    // Written first: where the leaf is not written, both are made anew at the next start.
    writeAtomically(caFile, root, 0o644)
    return { key: server.key, chain: server.certificate + issuing }
  })
  return { ...kept, caFile }
}

/** Reads what an earlier start made, while it is whole and good for another month; else makes it anew. */
async function keep(state: StateFolder, name: string, make: () => Promise<Kept>): Promise<Kept> {
  const [keyFile, chainFile] = [join(state.own, `${name}.key.pem`), join(state.own, `${name}.pem`)]
  const kept = read(keyFile, chainFile)
  if (kept !== null) return kept
  // Said, since runners that were enrolled under the former CA must enroll anew.
  if (existsSync(chainFile)) process.stderr.write(`muster: ${chainFile} is damaged or ends within a month: made anew\n`)
  const made = await make()
  writeAtomically(keyFile, made.key)
  writeAtomically(chainFile, made.chain, 0o644)
  return made
}

const MONTH = 30 * 86_400_000

function read(keyFile: string, chainFile: string): Kept | null {
  try {
    const [key, chain] = [readFileSync(keyFile, 'utf8'), readFileSync(chainFile, 'utf8')]
    const first = new X509Certificate(chain)
    const lasts = first.validToDate.getTime() - Date.now() > MONTH
    return lasts && first.checkPrivateKey(createPrivateKey(key)) ? { key, chain } : null
  } catch {
    return null
  }
}

const now = () => toEpochSeconds(systemClock())
