// The Worker as one ES module, with a trust file in it.

import { build, stop } from 'esbuild'
import { PROJECT } from './project.ts'

/** The entry file with all that it imports; `trust` takes the place of the compiled trust file. */
export async function bundle(entry: string, trust: unknown, ending?: AbortSignal): Promise<string> {
  // Left alone, its process would notice the end of ours a moment later.
  ending?.addEventListener('abort', () => void stop(), { once: true })
  const result = await build({
    entryPoints: [entry],
    absWorkingDir: PROJECT,
    bundle: true,
    write: false,
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
        setup: ({ onResolve, onLoad }) => {
          onResolve({ filter: /^#trust$/ }, () => ({ path: 'trust', namespace: 'trust' }))
          onLoad({ filter: /^trust$/, namespace: 'trust' }, () => ({ contents: JSON.stringify(trust), loader: 'json' }))
        },
      },
    ],
  })
  // Its process would stay for the next build.
  await stop()
  const [output] = result.outputFiles
  if (output === undefined) throw new Error('esbuild made no output')
  return output.text
}
