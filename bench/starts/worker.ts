// Measures the Worker's bundle as `wrangler deploy` makes it: its size, and the CPU that its start takes.

import { execFile } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { gzipSync } from 'node:zlib'
import { convertV4MiniflareOptions, Miniflare, NoOpLog } from 'miniflare'
import { childrenOf, PROJECT } from '../../test/end-to-end/processes.ts'
import { cpuOf, untilIdle } from '../cpu.ts'

/** The code of the one module that would be uploaded. */
export async function bundleOfDeploy(): Promise<Buffer> {
  const folder = mkdtempSync(join(tmpdir(), 'muster-bundle-'))
  try {
    const wrangler = join(PROJECT, 'node_modules/.bin/wrangler')
    const env = { ...process.env, WRANGLER_SEND_METRICS: 'false', CLOUDFLARE_CF_FETCH_ENABLED: 'false' }
    await promisify(execFile)(wrangler, ['deploy', '--dry-run', '--outdir', folder], { cwd: PROJECT, env })
    const [name, ...more] = readdirSync(folder).filter((file) => file.endsWith('.js'))
    if (name === undefined || more.length > 0) throw new Error('the bundle is not one module')
    return readFileSync(join(folder, name))
  } finally {
    rmSync(folder, { recursive: true })
  }
}

export const gzippedBytes = (bundle: Buffer): number => gzipSync(bundle).length

/** A Worker that imports the bundle at the first request to `/start`. */
const IMPORTER = `export default {
  async fetch({ url }) {
    if (url.endsWith('/start')) await import('./bundle.mjs')
    return new Response('')
  }
}`

/** Milliseconds of CPU that a new workerd takes to import the code: to compile it, and to run it at its top level. */
export async function startCpu(code: string): Promise<number> {
  const before = new Set(childrenOf(process.pid))
  const miniflare = new Miniflare(
    convertV4MiniflareOptions({
      compatibilityDate: '2026-11-01',
      modulesRoot: '/',
      modules: [
        { type: 'ESModule', path: '/importer.mjs', contents: IMPORTER },
        { type: 'ESModule', path: '/bundle.mjs', contents: code },
      ],
      cf: false,
      telemetry: { enabled: false },
      log: new NoOpLog(),
    }),
  )
  try {
    await miniflare.ready
    const pid = childrenOf(process.pid).find((child) => !before.has(child) && isWorkerd(child))
    if (pid === undefined) throw new Error('no workerd was started')
    const used = async (path: string): Promise<number> => {
      await untilIdle(pid)
      const from = cpuOf(pid)
      const answer = await miniflare.dispatchFetch(`http://worker${path}`)
      if (answer.status !== 200) throw new Error(`the bundle does not start: ${await answer.text()}`)
      await answer.text()
      await untilIdle(pid)
      return (cpuOf(pid) - from) / 1e6
    }
    await used('/')
    // What a request takes besides.
    const other = await used('/')
    return (await used('/start')) - other
  } finally {
    await miniflare.dispose()
  }
}

const isWorkerd = (pid: number): boolean => readFileSync(`/proc/${pid}/comm`, 'utf8').startsWith('workerd')
