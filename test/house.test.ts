// The rules of the house: which room may import which, which package lives where, what no file may hold.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'

const ROOT = fileURLToPath(new URL('../', import.meta.url))
const SRC = join(ROOT, 'src')

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
  'worker/enrollment': [...PURE, 'worker/attestors', 'worker/ca', 'worker/store', 'worker/fleet', 'worker/telemetry'],
  'worker/attestors': [...PURE, 'worker/keysets'],
  'worker/keysets': [...PURE, 'worker/telemetry'],
  'worker/ca': PURE,
  'worker/store': [...PURE, 'worker/telemetry'],
  'worker/fleet': [...PURE, 'worker/telemetry'],
  'worker/telemetry': [],
  // What the runner and the CLI share on Node.
  node: ['protocol'],
  runner: [
    'protocol',
    'node',
    'runner/log',
    'runner/exit',
    'runner/environment',
    'runner/net',
    'runner/identity',
    'runner/evidence',
    'runner/renewal',
    'runner/tunnel',
  ],
  // Two files of the top that every room of the runner may need.
  'runner/log': ['protocol'],
  'runner/exit': [],
  'runner/environment': ['protocol', 'node'],
  'runner/net': ['protocol', 'node', 'runner/log', 'runner/environment'],
  'runner/identity': ['protocol', 'node', 'runner/log', 'runner/environment'],
  'runner/evidence': ['protocol', 'node', 'runner/log', 'runner/environment'],
  'runner/renewal': [
    'protocol',
    'node',
    'runner/log',
    'runner/exit',
    'runner/environment',
    'runner/net',
    'runner/identity',
    'runner/evidence',
  ],
  'runner/tunnel': ['protocol', 'node', 'runner/log', 'runner/environment', 'runner/net', 'runner/identity'],
  // Commands; what they do lies in the rooms under them.
  cli: [...PURE, 'node', 'cli/operator', 'cli/ca', 'cli/edge', 'cli/store', 'worker/store', 'worker/ca'],
  'cli/operator': [...PURE, 'node'],
  'cli/ca': ['protocol', 'node', 'cli/operator', 'worker/ca'],
  'cli/edge': [...PURE, 'node', 'cli/operator', 'cli/ca'],
  'cli/store': ['protocol', 'node', 'cli/operator', 'cli/edge', 'worker/store'],
}

/** Single files that may reach further, each for one reason. */
const EXCEPTIONS: Record<string, readonly string[]> = {
  // One program, one list of commands.
  'cli/main.ts': ['runner'],
}

const FENCES: Record<string, readonly string[]> = {
  hono: ['worker/http'],
  jose: ['worker/attestors', 'worker/keysets', 'worker/http/access'],
  '@peculiar/x509': ['cli/ca'],
  'reflect-metadata': ['cli/ca'],
  'drizzle-orm': ['worker/store'],
  aws4fetch: ['runner'],
  '@aws-sdk/credential-providers': ['runner'],
  yaml: ['trust', 'cli'],
  '@connectrpc/connect': ['worker/http'],
  'cloudflare:workers': ['worker/fleet', 'worker/keysets'],
  commander: ['cli', 'runner/command'],
  ws: ['runner'],
  undici: ['runner'],
  croner: ['cli/edge'],
  esbuild: ['cli/edge'],
  miniflare: ['cli/edge'],
  wrangler: ['cli/edge'],
}

/** Rooms that run in workerd too, or decide: no Node there, and no pattern may decide trust. */
const DECIDING = ['protocol', 'trust', 'worker']

/** Where the time is read: everywhere else it is passed in. */
const CLOCKS: Record<string, readonly string[]> = {
  'protocol/time.ts': ['Date.now'],
  // The platform's own event, made up for a cron job that is asked for by hand.
  'worker/local-edge.ts': ['Date.now'],
}

/** Files that put mistakes into words, and decide nothing by a pattern. */
const WORDING = ['trust/syntax.ts']

/** They say nothing of what is in a file, so sooner or later everything is. */
const EMPTY_WORDS = ['util', 'utils', 'common', 'helper', 'helpers', 'core', 'manager', 'service', 'handler']
/** Verbs of the house: parse (shape), verify (signature), appraise, decide, issue, inspect, record, render. */
const OTHER_VERBS = ['validate', 'process', 'handle', 'manage']

interface SourceFile {
  readonly path: string
  readonly text: string
  readonly imports: readonly string[]
}

const IMPORT = /(?:from\s+|import\s+|import\()\s*'([^']+)'/g

/** Every file but the generated ones. */
function sources(folder = SRC): SourceFile[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) return entry.name === 'gen' ? [] : sources(path)
    if (!/\.tsx?$/.test(entry.name)) return []
    const text = readFileSync(path, 'utf8')
    return [{ path: relative(SRC, path), text, imports: [...text.matchAll(IMPORT)].map((m) => m[1] as string) }]
  })
}

/** The folders of worker, runner and cli are rooms of their own, and so is a file that has a row. */
const roomOf = (path: string): string => {
  const [top = '', second = ''] = path.split('/')
  const inner = `${top}/${second.replace(/\.tsx?$/, '')}`
  const isFolder = inner === `${top}/${second}` && top !== 'protocol' && top !== 'trust'
  // `cli/ca.ts` is not of the folder beside it.
  return isFolder || (inner in ARROWS && !existsSync(join(SRC, inner))) ? inner : top
}

const packageOf = (specifier: string): string =>
  specifier
    .split('/')
    .slice(0, specifier.startsWith('@') ? 2 : 1)
    .join('/')

const files = sources()
/** Whoever may use what `src` exports. */
const users = [...files, ...sources(join(ROOT, 'test')), ...sources(join(ROOT, 'bench'))]

const wordsOf = (name: string): string[] =>
  name
    .replace(/([a-z0-9])([A-Z])/g, '$1 $2')
    .toLowerCase()
    .split(/[^a-z0-9]+/)

const exportsOf = ({ text }: SourceFile, kinds: string): string[] =>
  [...text.matchAll(new RegExp(`^export (?:async )?(?:${kinds}) (\\w+)`, 'gm'))].map((m) => m[1] as string)

const mentions = ({ text }: SourceFile, name: string): boolean => new RegExp(`\\b${name}\\b`).test(text)

/** The text without its comments and strings: near enough for words that must not stand in code. */
const codeOf = (text: string): string =>
  text
    .replace(/\/\*[\s\S]*?\*\//g, '')
    .replace(/(^|\s)\/\/.*$/gm, '$1')
    .replace(/'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`/g, "''")

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

  test('has no default export, unless it is an entry file of the Worker, and passes no exports on', () => {
    if (!['worker/index.ts', 'worker/dev.ts'].includes(file.path)) expect(file.text).not.toMatch(/^export default /m)
    expect(file.text).not.toMatch(/^export (?:type )?(?:\*|\{[^}]*\} from)/m)
  })

  test('is called after what is in it, and so is what it exports', () => {
    const names = [
      ...file.path.replace(/\.tsx?$/, '').split('/'),
      ...exportsOf(file, 'const|function|class|interface|type'),
    ]
    // Kubernetes has a word of its own.
    const words = names.map((name) => name.replace('ServiceAccount', '')).flatMap(wordsOf)
    expect(words.filter((word) => [...EMPTY_WORDS, ...OTHER_VERBS].includes(word))).toEqual([])
    expect(file.text).not.toMatch(/\battester/i)
  })

  test('exports no value that nobody takes', () => {
    if (['worker/index.ts', 'worker/dev.ts', 'runner/index.ts'].includes(file.path)) return
    const unused = exportsOf(file, 'const|function|class').filter(
      (name) => !users.some((other) => other.path !== file.path && mentions(other, name)),
    )
    expect(unused).toEqual([])
  })

  test('imports by the name of the file', () => {
    const own = file.imports.filter((specifier) => specifier.startsWith('.'))
    expect(own.filter((specifier) => !/\.(ts|tsx|json)$/.test(specifier))).toEqual([])
  })

  test('knows no Node, no pattern and no time of its own where it decides', () => {
    if (!DECIDING.includes(file.path.split('/')[0] ?? '')) return
    expect(file.imports.filter((specifier) => specifier.startsWith('node:'))).toEqual([])
    const code = codeOf(file.text)
    const pattern = /\bRegExp\b|\.(?:match|matchAll|test|search)\(|[=(,:?]\s*\/(?![/*])/
    if (!WORDING.includes(file.path)) expect(code).not.toMatch(pattern)
    expect([...code.matchAll(/\bDate\.now\b|\bnew Date\(\)/g)].map(([clock]) => clock)).toEqual(CLOCKS[file.path] ?? [])
  })
})

test('the inspection of what the CA made shares no code with what made it', () => {
  const reached = new Set(['worker/ca/inspect.ts'])
  for (const path of reached) {
    const { imports = [] } = files.find((file) => file.path === path) ?? {}
    for (const specifier of imports.filter((specifier) => specifier.startsWith('.')))
      reached.add(relative(SRC, resolve(SRC, dirname(path), specifier)))
  }
  expect(reached).toContain('protocol/der.ts')
  for (const maker of ['protocol/der-writer.ts', 'worker/ca/to-be-signed.ts', 'worker/ca/issue.ts'])
    expect(reached).not.toContain(maker)
})

/** The files of `src` that a file takes values from; what is imported as types alone is not there at run time. */
const valuesTakenBy = ({ path, text }: SourceFile): string[] =>
  [...text.matchAll(/^import (?!type )(?:[^']*? from )?'(\.[^']+)'|\bimport\('(\.[^']+)'\)/gm)].map((m) =>
    relative(SRC, resolve(SRC, dirname(path), m[1] ?? m[2] ?? '')),
  )

function reachedFrom(entry: string): Set<string> {
  const reached = new Set<string>()
  const open = [entry]
  for (let path = open.pop(); path !== undefined; path = open.pop()) {
    if (reached.has(path)) continue
    reached.add(path)
    const file = files.find((one) => one.path === path)
    if (file !== undefined) open.push(...valuesTakenBy(file))
  }
  return reached
}

test('the Worker takes nothing of the compiler of the trust file along', () => {
  const taken = [...reachedFrom('worker/index.ts')].filter((path) => /^trust\/[^/]+$/.test(path))
  expect(taken.toSorted()).toEqual(
    ['bans', 'compiled', 'decide', 'grammar', 'reauthorize'].map((name) => `trust/${name}.ts`),
  )
})

/** Where one mode is named, and why: a new mode is named in as many places (docs/contributing.md). */
const NAMING_AWS = {
  'protocol/modes.ts': 'its row',
  'trust/modes/aws-sts.ts': 'what the trust file says of it',
  'trust/modes/registry.ts': 'line of the registry',
  'trust/file.ts': 'its fields',
  'trust/compile.ts': 'its mappings',
  'worker/attestors/aws-sts.ts': 'its attestor',
  'worker/attestors/registry.ts': 'line of the registry',
  'worker/attestors/aws/arn.ts': 'the claims that the attestor gives',
  'runner/evidence/aws-sts.ts': 'its variables, their help, and its evidence',
  'runner/evidence/registry.ts': 'line of the registry',
}

test('a mode is named in its row, its files and the registries alone', () => {
  const naming = files.filter(({ text }) => text.includes('aws-sts')).map(({ path }) => path)
  expect(naming.toSorted()).toEqual(Object.keys(NAMING_AWS).toSorted())
})

test('the deployed Worker is not the one that development uses', () => {
  const configuration = readFileSync(join(ROOT, 'wrangler.toml'), 'utf8')
  expect(configuration).toMatch(/^main = "src\/worker\/index\.ts"$/m)
  expect(configuration).not.toContain('dev.ts')
})

const pages = ['README.md', ...readdirSync(join(ROOT, 'docs')).map((name) => `docs/${name}`)]

test.each(pages)('%s leads to nothing that is not there', (page) => {
  const links = [...readFileSync(join(ROOT, page), 'utf8').matchAll(/\]\(([^)#:]+)(?:#[^)]*)?\)/g)].map(
    ([, link]) => link ?? '',
  )
  expect(links.filter((link) => !existsSync(join(ROOT, dirname(page), link)))).toEqual([])
})
