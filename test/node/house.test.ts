// The rules of the house: which room may import which, which package lives where, how long a file may be.
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'

const SRC = fileURLToPath(new URL('../../src/', import.meta.url))

/** What each room may import beside itself. The way of the data: http → enrollment → attestors → keysets. */
const PURE = ['protocol', 'trust']
const ARROWS: Record<string, readonly string[]> = {
  protocol: [],
  trust: ['protocol'],
  // The two entry files and what they put together.
  worker: [
    ...PURE,
    'worker/http',
    'worker/enrollment',
    'worker/attestors',
    'worker/keysets',
    'worker/ca',
    'worker/store',
    'worker/fleet',
  ],
  'worker/http': [...PURE, 'worker/enrollment', 'worker/ca', 'worker/store'],
  'worker/enrollment': [...PURE, 'worker/attestors', 'worker/ca', 'worker/store', 'worker/fleet'],
  'worker/attestors': [...PURE, 'worker/keysets'],
  'worker/keysets': PURE,
  'worker/ca': PURE,
  'worker/store': PURE,
  'worker/fleet': PURE,
  runner: ['protocol'],
  cli: [...PURE, 'worker/store', 'worker/ca'],
}

/** Single files that may reach further, each for one reason. */
const EXCEPTIONS: Record<string, readonly string[]> = {
  // One program, one list of commands.
  'cli/main.ts': ['runner'],
}

const FENCES: Record<string, readonly string[]> = {
  hono: ['worker/http'],
  jose: ['worker/attestors', 'worker/keysets', 'worker/http/access'],
  '@peculiar/x509': ['worker/ca', 'runner/keys'],
  'drizzle-orm': ['worker/store'],
  aws4fetch: ['runner'],
  yaml: ['trust', 'cli'],
}

interface SourceFile {
  readonly path: string
  readonly text: string
  readonly imports: readonly string[]
}

const IMPORT = /(?:from\s+|import\s+|import\()\s*'([^']+)'/g

function sources(folder = SRC): SourceFile[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) return entry.name === 'gen' ? [] : sources(path)
    if (!/\.tsx?$/.test(entry.name)) return []
    const text = readFileSync(path, 'utf8')
    return [{ path: relative(SRC, path), text, imports: [...text.matchAll(IMPORT)].map((m) => m[1] as string) }]
  })
}

const roomOf = (path: string): string => {
  const [top = '', second] = dirname(path).split('/')
  return top === 'worker' && second !== undefined ? `${top}/${second}` : top
}

const packageOf = (specifier: string): string =>
  specifier
    .split('/')
    .slice(0, specifier.startsWith('@') ? 2 : 1)
    .join('/')

const files = sources()

test('there is a house to look at', () => {
  expect(files.length).toBeGreaterThan(20)
})

describe.each(files)('$path', (file) => {
  test('imports only what its room may', () => {
    const room = roomOf(file.path)
    const allowed = [room, ...(ARROWS[room] ?? []), ...(EXCEPTIONS[file.path] ?? [])]
    const reached = file.imports
      .filter((specifier) => specifier.startsWith('.'))
      .map((specifier) => roomOf(relative(SRC, resolve(SRC, dirname(file.path), specifier))))
    expect(reached.filter((other) => !allowed.includes(other))).toEqual([])
  })

  test('keeps packages behind their fences', () => {
    const escaped = file.imports.map(packageOf).filter((name) => {
      const fence = FENCES[name]
      return (
        fence !== undefined &&
        !fence.some(
          (place) =>
            file.path === `${place}.ts` || file.path.startsWith(`${place}/`) || file.path.startsWith(`${place}.`),
        )
      )
    })
    expect(escaped).toEqual([])
  })

  test('is at most 300 lines and opens with what may be in it', () => {
    expect(file.text.split('\n').length - 1).toBeLessThanOrEqual(300)
    expect(file.text.replace(/^#!.*\n/, '')).toMatch(/^(\/\/|\/\*\*?) ?\S/)
  })

  test('has no default export, unless it is an entry file of the Worker', () => {
    if (['worker/index.ts', 'worker/dev.ts'].includes(file.path)) return
    expect(file.text).not.toMatch(/^export default /m)
  })
})
