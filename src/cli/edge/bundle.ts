// The Worker's code as one ES module, bundled anew only where it has changed. It imports the compiled trust file from a
// module beside it.

import { createHash } from 'node:crypto'
import { mkdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { writeAtomically } from '../../node/atomic-file.ts'
import { PROJECT } from './project.ts'

/** What the code imports the compiled trust file from. */
export const TRUST_MODULE = './trust.mjs'

/** Files that decide about the code without being in it. */
const BESIDE = ['package-lock.json', 'tsconfig.json', 'src/cli/edge/bundle.ts']

/** Of one entry file. */
interface Kept {
  readonly code: string
  /** Path from the top of the project → hash of the file that the code was made of. */
  readonly inputs: Readonly<Record<string, string>>
}

/** The entry file with all that it imports. */
export async function bundle(entry: string, ending?: AbortSignal): Promise<string> {
  const path = join(PROJECT, '.wrangler/bundle', `${relative(PROJECT, entry).replaceAll('/', '-')}.json`)
  const known = readKept(path)
  if (known !== null) return known.code
  const kept = await build(entry, ending)
  try {
    mkdirSync(dirname(path), { recursive: true })
    writeAtomically(path, JSON.stringify(kept), 0o644)
  } catch {
    // A checkout that cannot be written to is bundled each time.
  }
  return kept.code
}

/** Null where nothing was kept, or where something has changed since. */
function readKept(path: string): Kept | null {
  try {
    const kept: Kept = JSON.parse(readFileSync(path, 'utf8'))
    return Object.entries(kept.inputs).every(([name, hash]) => hashOf(name) === hash) ? kept : null
  } catch {
    return null
  }
}

const hashOf = (name: string): string =>
  createHash('sha256')
    .update(readFileSync(join(PROJECT, name)))
    .digest('base64url')

async function build(entry: string, ending?: AbortSignal): Promise<Kept> {
  const esbuild = await import('esbuild')
  // Left alone, its process would notice the end of ours a moment later.
  ending?.addEventListener('abort', () => void esbuild.stop(), { once: true })
  const { outputFiles, metafile } = await esbuild.build({
    entryPoints: [entry],
    absWorkingDir: PROJECT,
    bundle: true,
    write: false,
    metafile: true,
    format: 'esm',
    platform: 'browser',
    target: 'es2024',
    conditions: ['workerd', 'worker', 'browser'],
    external: ['cloudflare:*', 'node:*'],
    jsx: 'automatic',
    jsxImportSource: 'hono/jsx',
    keepNames: true,
    logLevel: 'silent',
    plugins: [
      {
        name: 'trust',
        setup: ({ onResolve }) => onResolve({ filter: /^#trust$/ }, () => ({ path: TRUST_MODULE, external: true })),
      },
    ],
  })
  // Its process would stay for the next build.
  await esbuild.stop()
  const [output] = outputFiles
  if (output === undefined) throw new Error('esbuild made no output')
  const names = [...Object.keys(metafile.inputs), ...BESIDE]
  return { code: output.text, inputs: Object.fromEntries(names.map((name) => [name, hashOf(name)])) }
}
