// Tests which modules a quick command and the runner load: by count and name, since most of their time and memory is that.
import { expect, test } from 'vitest'
import { spawnMuster } from '../end-to-end/muster.ts'

/** Has a process print, at its end, what it loaded: addresses of modules, and Node's own by name. */
const REPORT = `import { registerHooks } from 'node:module'
const loaded = []
registerHooks({ load(url, context, next) { loaded.push(url); return next(url, context) } })
process.on('exit', () => process.stderr.write('\\n' + JSON.stringify([...loaded, ...process.moduleLoadList])))`

async function loadedBy(...words: string[]): Promise<string[]> {
  const env = { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(REPORT)}` }
  const { stderr } = await spawnMuster(words, { env })
  return JSON.parse(stderr.split('\n').at(-1) ?? '')
}

/** Packages of node_modules, each once. */
const packagesOf = (urls: readonly string[]) => [
  ...new Set(urls.flatMap((url) => url.match(/node_modules\/((?:@[^/]+\/)?[^/]+)/)?.[1] ?? [])),
]
const ownOf = (urls: readonly string[]) => urls.filter((url) => /\/src\/[^.]+\.ts$/.test(url))

test.each([
  ['--version', ['commander'], 12],
  ['token mint --help', ['commander'], 20],
  ['--help', ['commander'], 65],
  ['trust check', ['commander', 'yaml'], 45],
  ['trust schema', ['commander', 'yaml'], 45],
])('muster %s loads of all packages only %j, and few modules of its own', async (words, packages, most) => {
  const loaded = await loadedBy(...words.split(' '))
  expect(packagesOf(loaded)).toEqual(packages)
  expect(ownOf(loaded).length).toBeLessThanOrEqual(most)
})

test('no command is loaded for another one', async () => {
  const loaded = ownOf(await loadedBy('events', '--help'))
  expect(loaded.filter((url) => /\/cli\/[^/]+\.ts$/.test(url)).map((url) => url.split('/').at(-1))).toEqual([
    'main.ts',
    'program.ts',
    'events.ts',
  ])
})

test('the runner loads neither the commands, nor undici, nor a library for a mode that it is not in', async () => {
  const loaded = await loadedBy('runner', '--help')
  expect(packagesOf(loaded)).toEqual(['valibot', 'ws'])
  expect(ownOf(loaded).filter((url) => url.includes('/cli/'))).toHaveLength(1)
  expect(loaded.filter((name) => name.includes('undici'))).toEqual([])
})
