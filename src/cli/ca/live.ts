// The roots that a running Muster hands out.

import { CommandError } from '../command.ts'
import { type Shown, showCertificates } from './folder.ts'

/** An answer that takes longer (milliseconds), or is longer, is no trust bundle. */
const PATIENCE = 10_000
const CHARACTERS = 256 * 1024

export async function liveCertificates(url: string): Promise<Shown[]> {
  const address = URL.canParse('/api/bundle.pem', url) ? new URL('/api/bundle.pem', url) : null
  if (address === null) throw new CommandError(`--url ${JSON.stringify(url)} is not a URL`)
  const pem = await fetch(address, { redirect: 'error', signal: AbortSignal.timeout(PATIENCE) }).then(
    async (answer) => (answer.ok ? await answer.text() : null),
    () => null,
  )
  const certificates = pem === null || pem.length > CHARACTERS ? [] : showCertificates(pem)
  if (certificates.length === 0) throw new CommandError(`${address} gives no trust bundle`)
  return certificates
}
