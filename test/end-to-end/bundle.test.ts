// Tests the Worker's bundle as `wrangler deploy` makes it: its size, and which modules are evaluated at its start.
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import { build, type Metafile, stop } from 'esbuild'
import { afterAll, beforeAll, expect, test } from 'vitest'

const PROJECT = fileURLToPath(new URL('../../', import.meta.url))
const ENTRY = 'src/worker/index.ts'

let bytes: Uint8Array
let inputs: Metafile['inputs']
/** What of each file is in the bundle. */
let sizes: Metafile['outputs'][string]['inputs']

beforeAll(async () => {
  const { outputFiles, metafile } = await build({
    entryPoints: [ENTRY],
    absWorkingDir: PROJECT,
    bundle: true,
    write: false,
    metafile: true,
    minify: true,
    format: 'esm',
    platform: 'browser',
    target: 'es2024',
    conditions: ['workerd', 'worker', 'browser'],
    external: ['cloudflare:*'],
    jsx: 'automatic',
    jsxImportSource: 'hono/jsx',
    logLevel: 'silent',
  })
  bytes = outputFiles[0]?.contents ?? new Uint8Array()
  inputs = metafile.inputs
  sizes = Object.values(metafile.outputs)[0]?.inputs ?? {}
})
afterAll(stop)

/** Files that are evaluated when the Worker starts: all but what `await import()` alone leads to. */
function startOf(entry: string): Set<string> {
  const reached = new Set([entry])
  for (const path of reached) {
    for (const { path: next, kind } of inputs[path]?.imports ?? []) if (kind !== 'dynamic-import') reached.add(next)
  }
  return reached
}

test('is at most 112 KiB, gzipped', () => {
  expect(gzipSync(bytes).length).toBeLessThanOrEqual(112 * 1024)
})

test('holds no general X.509 library', () => {
  const library = (path: string) => path.includes('@peculiar') || path.includes('reflect-metadata')
  expect(Object.keys(inputs).filter(library)).toEqual([])
})

test('holds of drizzle the schema and the SQL, not the query builder, which the CLI has', () => {
  const builder = (path: string) =>
    /drizzle-orm\/(?:d1|relations|sqlite-core\/(?:db|dialect|query-builders|session))/.test(path)
  expect(Object.entries(sizes).filter(([path, { bytesInOutput }]) => builder(path) && bytesInOutput > 0)).toEqual([])
})

test('starts without the Connect libraries, which its first Connect call loads', () => {
  const libraries = (paths: Iterable<string>) =>
    [...paths].filter((path) => path.includes('@connectrpc') || path.includes('@bufbuild'))
  expect(libraries(Object.keys(inputs))).not.toEqual([])
  expect(libraries(startOf(ENTRY))).toEqual([])
})
