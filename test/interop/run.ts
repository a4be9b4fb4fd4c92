// `npm run interop [-- NAME…]`: Muster against programs that others wrote. One file a peer, one line here.
// Exit 1 where a check does not hold, or where a peer could not be run at all.

import { aws } from './aws.ts'
import type { Peer } from './peer.ts'

const PEERS: readonly Peer[] = [aws]

const chosen = process.argv.slice(2)
const unknown = chosen.find((name) => PEERS.every((peer) => peer.name !== name))
if (unknown !== undefined) {
  console.error(`interop: no peer ${JSON.stringify(unknown)}; there are: ${PEERS.map(({ name }) => name).join(', ')}`)
  process.exit(1)
}

let failures = 0
for (const peer of PEERS.filter(({ name }) => chosen.length === 0 || chosen.includes(name))) {
  console.log(`${peer.name}: ${peer.summary}`)
  const missing = await peer.prepare()
  for (const what of missing) console.log(`  missing: ${what}`)
  failures += missing.length
  if (missing.length > 0) continue
  try {
    await peer.run(check)
  } catch (error) {
    fail('the peer could be set up', error)
  }
}
process.exitCode = failures === 0 ? 0 : 1

async function check(sentence: string, work: () => Promise<void>): Promise<void> {
  try {
    await work()
    console.log(`  ✓ ${sentence}`)
  } catch (error) {
    fail(sentence, error)
  }
}

function fail(sentence: string, error: unknown): void {
  failures++
  console.log(
    `  ✗ ${sentence}\n    ${error instanceof Error ? error.message.replaceAll('\n', '\n    ') : String(error)}`,
  )
}
