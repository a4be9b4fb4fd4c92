// Tests the rules of the source tree: which room may import which, where each package is used, what no file may hold.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { basename, dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { CONFIGURABLE_MODES, MODES } from '../src/protocol/modes.ts'

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
    'runner/environment',
    'runner/net',
    'runner/identity',
    'runner/evidence',
    'runner/renewal',
    'runner/tunnel',
  ],
  'runner/environment': ['protocol', 'node'],
  'runner/net': ['protocol', 'node', 'runner/environment'],
  'runner/identity': ['protocol', 'node', 'runner/environment'],
  'runner/evidence': ['protocol', 'node', 'runner/environment'],
  'runner/renewal': ['protocol', 'node', 'runner/environment', 'runner/net', 'runner/identity', 'runner/evidence'],
  'runner/tunnel': ['protocol', 'node', 'runner/environment', 'runner/net', 'runner/identity'],
  // Commands; what they do lies in the rooms under them.
  cli: [...PURE, 'node', 'cli/operator', 'cli/ca', 'cli/edge', 'cli/store', 'worker/store', 'worker/ca'],
  'cli/operator': [...PURE, 'node'],
  'cli/ca': ['protocol', 'node', 'cli/operator', 'worker/ca'],
  'cli/edge': [...PURE, 'node', 'cli/operator', 'cli/ca'],
  'cli/store': [...PURE, 'node', 'cli/operator', 'cli/edge', 'worker/store'],
}

/** Single files that may reach further, each for one reason. */
const EXCEPTIONS: Record<string, readonly string[]> = {
  // One program, one list of commands.
  'cli/main.ts': ['runner'],
}

/** Where each package may be imported: a room, or one file. */
const FENCES: Record<string, readonly string[]> = {
  hono: ['worker/http'],
  jose: ['worker/attestors/kubernetes', 'worker/keysets/jwks'],
  '@peculiar/x509': ['cli/ca'],
  'reflect-metadata': ['cli/ca'],
  'drizzle-orm': ['worker/store'],
  aws4fetch: ['runner/evidence'],
  '@aws-sdk/credential-providers': ['runner/evidence'],
  yaml: ['trust'],
  valibot: ['protocol', 'worker/attestors', 'cli/store'],
  '@connectrpc/connect': ['worker/http'],
  'cloudflare:workers': ['worker/fleet', 'worker/keysets'],
  commander: ['cli'],
  ws: ['runner/tunnel'],
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
const testFiles = sources(join(ROOT, 'test'))
const benchFiles = sources(join(ROOT, 'bench'))
/** Whoever may use what `src` exports. */
const users = [...files, ...testFiles, ...benchFiles]

const wordsOf = (name: string): string[] =>
  name
    .replace(/([a-z0-9])([A-Z])/g, '$1 $2')
    .toLowerCase()
    .split(/[^a-z0-9]+/)

const exportsOf = ({ text }: SourceFile, kinds: string): string[] =>
  [...text.matchAll(new RegExp(`^export (?:async )?(?:${kinds}) (\\w+)`, 'gm'))].map((m) => m[1] as string)

/** The text without its comments and strings: near enough for words that must not stand in code. */
const codeOf = (text: string): string =>
  text
    .replace(/\/\*[\s\S]*?\*\//g, '')
    .replace(/(^|\s)\/\/.*$/gm, '$1')
    .replace(/'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`/g, "''")

test('there are source files to look at', () => {
  expect(files.length).toBeGreaterThan(20)
})

/** What is wrong with each file, a line each. */
const faults = (faultsOf: (file: SourceFile) => readonly string[], among = files): string[] =>
  among.flatMap((file) => faultsOf(file).map((fault) => `${file.path}: ${fault}`))

/** The files that a file imports, types included. */
const importedBy = ({ path, imports }: SourceFile): string[] =>
  imports
    .filter((specifier) => specifier.startsWith('.'))
    .map((specifier) => relative(SRC, resolve(SRC, dirname(path), specifier)))

test('a file imports only what its room may', () => {
  const strangers = (file: SourceFile): string[] => {
    const room = roomOf(file.path)
    const allowed = [room, ...(ARROWS[room] ?? []), ...(EXCEPTIONS[file.path] ?? [])]
    return importedBy(file).filter((path) => !allowed.includes(roomOf(path)))
  }
  expect(faults(strangers)).toEqual([])
})

/** Those from which the arrows lead back to where they began. */
function circles(arrows: ReadonlyMap<string, readonly string[]>): string[] {
  const leadsBack = (start: string): boolean => {
    const reached = new Set(arrows.get(start))
    for (const place of reached) for (const next of arrows.get(place) ?? []) reached.add(next)
    return reached.has(start)
  }
  return [...arrows.keys()].filter(leadsBack)
}

test('no circular imports between files or rooms, not even of types', () => {
  expect(circles(new Map(files.map((file) => [file.path, importedBy(file)])))).toEqual([])
  const rooms = Map.groupBy(files, ({ path }) => roomOf(path))
  const arrows = [...rooms].map(([room, inside]) => {
    const reached = inside.flatMap(importedBy).map(roomOf)
    return [room, reached.filter((other) => other !== room)] as const
  })
  expect(circles(new Map(arrows))).toEqual([])
})

const isIn = (path: string, place: string): boolean => path.startsWith(`${place}/`) || path === `${place}.ts`

test('a package is imported only where FENCES allows it', () => {
  const escaped = ({ path, imports }: SourceFile): string[] =>
    imports.map(packageOf).filter((name) => FENCES[name]?.some((place) => isIn(path, place)) === false)
  expect(faults(escaped)).toEqual([])
})

test('FENCES lists only places where the package is used', () => {
  const unused = Object.entries(FENCES).flatMap(([name, places]) =>
    places
      .filter((place) => !files.some(({ path, imports }) => isIn(path, place) && imports.map(packageOf).includes(name)))
      .map((place) => `${name}: ${place}`),
  )
  expect(unused).toEqual([])
})

test('a file has at most 300 lines', () => {
  const tooLong = ({ text }: SourceFile) => (text.split('\n').length > 301 ? ['too long'] : [])
  expect(faults(tooLong, [...files, ...benchFiles])).toEqual([])
})

test('a file opens with a comment that says what is in it', () => {
  const opens = /^(\/\/|\/\*\*?) ?\S/
  const silent = ({ text }: SourceFile) => (opens.test(text.replace(/^#!.*\n/, '')) ? [] : ['does not say it'])
  expect(faults(silent, [...files, ...benchFiles])).toEqual([])
})

const WORKER_ENTRIES = ['worker/index.ts', 'worker/dev.ts']

test('a file has no default export, unless it is an entry file of the Worker', () => {
  const isDefault = ({ path, text }: SourceFile) => /^export default /m.test(text) && !WORKER_ENTRIES.includes(path)
  expect(files.filter(isDefault).map(({ path }) => path)).toEqual([])
})

test('a file re-exports nothing', () => {
  expect(faults(({ text }) => text.match(/^export (?:type )?(?:\*|\{[^}]*\} from)/gm) ?? [])).toEqual([])
})

test('a file is called after what is in it, and so is what it exports', () => {
  const emptyWords = (file: SourceFile): string[] => {
    const names = [
      ...file.path.replace(/\.tsx?$/, '').split('/'),
      ...exportsOf(file, 'const|function|class|interface|type'),
    ]
    // Kubernetes has a word of its own.
    const words = names.map((name) => name.replace('ServiceAccount', '')).flatMap(wordsOf)
    const named = words.filter((word) => [...EMPTY_WORDS, ...OTHER_VERBS].includes(word))
    return [...named, ...(file.text.match(/\battester/gi) ?? [])]
  }
  expect(faults(emptyWords)).toEqual([])
})

test('a file exports no value that is not used', () => {
  const entries = [...WORKER_ENTRIES, 'runner/index.ts']
  const takers = new Map<string, number>()
  for (const { text } of users)
    for (const word of new Set(text.match(/\w+/g))) takers.set(word, (takers.get(word) ?? 0) + 1)
  const unused = (file: SourceFile): string[] =>
    entries.includes(file.path)
      ? []
      : exportsOf(file, 'const|function|class').filter((name) => (takers.get(name) ?? 0) < 2)
  expect(faults(unused)).toEqual([])
})

test('a file is imported by its name', () => {
  expect(faults((file) => importedBy(file).filter((path) => !/\.(ts|tsx|json)$/.test(path)))).toEqual([])
})

const deciding = (file: SourceFile, faultsOf: (file: SourceFile) => readonly string[]): readonly string[] =>
  DECIDING.includes(file.path.split('/')[0] ?? '') ? faultsOf(file) : []

test('code that decides uses nothing of Node', () => {
  const ofNode = ({ imports }: SourceFile) => imports.filter((specifier) => specifier.startsWith('node:'))
  expect(faults((file) => deciding(file, ofNode))).toEqual([])
})

test('code that decides uses no regular expression', () => {
  const pattern = /\bRegExp\b|\.(?:match|matchAll|test|search)\(|[=(,:?]\s*\/(?![/*])/g
  const patterns = ({ path, text }: SourceFile) => (WORDING.includes(path) ? [] : (codeOf(text).match(pattern) ?? []))
  expect(faults((file) => deciding(file, patterns))).toEqual([])
})

test('code that decides gets the time passed in', () => {
  const clocks = files.flatMap((file) =>
    deciding(file, ({ text }) => codeOf(text).match(/\bDate\.now\b|\bnew Date\(\)/g) ?? []).map(
      (clock) => [file.path, clock] as const,
    ),
  )
  const allowed = Object.entries(CLOCKS).flatMap(([path, times]) => times.map((clock) => [path, clock] as const))
  expect(clocks.toSorted()).toEqual(allowed.toSorted())
})

const tests = readdirSync(join(ROOT, 'test'), { recursive: true, encoding: 'utf8' }).filter((path) =>
  path.endsWith('.test.ts'),
)

test('a test file, fixture or fake opens with a comment that says what it tests or provides', () => {
  const silent = testFiles.filter(({ text }) => !/^\/\/ \S/.test(text)).map(({ path }) => path)
  expect(silent).toEqual([])
})

test('no two test files have one name', () => {
  const names = tests.map((path) => basename(path))
  expect(names.filter((name, at) => names.indexOf(name) !== at)).toEqual([])
})

test('tests lie in folders named after the rooms; end-to-end tests and fakes have their own', () => {
  const elsewhere = tests.map(dirname).filter((folder) => !['.', 'end-to-end', 'fakes'].includes(folder))
  expect(elsewhere.filter((folder) => !existsSync(join(SRC, folder)))).toEqual([])
})

/** The files of `src` that a file takes values from; what is imported as types alone is not there at run time. */
const valuesTakenBy = ({ path, text }: SourceFile): string[] =>
  [...text.matchAll(/^import (?!type )(?:[^']*? from )?'(\.[^']+)'|\bimport\('(\.[^']+)'\)/gm)].map((m) =>
    relative(SRC, resolve(SRC, dirname(path), m[1] ?? m[2] ?? '')),
  )

function reachedFrom(entry: string, next: (file: SourceFile) => string[] = valuesTakenBy): Set<string> {
  const reached = new Set<string>()
  const open = [entry]
  for (let path = open.pop(); path !== undefined; path = open.pop()) {
    if (reached.has(path)) continue
    reached.add(path)
    const file = files.find((one) => one.path === path)
    if (file !== undefined) open.push(...next(file))
  }
  return reached
}

test('the inspection of what the CA made shares no code with what made it', () => {
  const reached = reachedFrom('worker/ca/inspect.ts', importedBy)
  expect(reached).toContain('protocol/der.ts')
  for (const maker of ['protocol/der-writer.ts', 'worker/ca/to-be-signed.ts', 'worker/ca/issue.ts'])
    expect(reached).not.toContain(maker)
})

test('the Worker imports nothing of the compiler of the trust file', () => {
  const taken = [...reachedFrom('worker/index.ts')].filter((path) => /^trust\/[^/]+$/.test(path))
  expect(taken.toSorted()).toEqual(
    ['banned-identity', 'bans', 'compiled', 'decide', 'grammar', 'reauthorize', 'shards'].map(
      (name) => `trust/${name}.ts`,
    ),
  )
})

const RENEWAL = 'mtls-renewal'
const ALL: readonly string[] = Object.keys(MODES)
const KUBERNETES = ['gke-oidc', 'eks-oidc', 'kubernetes']
const MINTED = ['bootstrap-token', 'runner-token']

type NamedModes = readonly [modes: readonly string[], why: string]
const rowsOf = (paths: readonly string[], ...row: NamedModes): Record<string, NamedModes> =>
  Object.fromEntries(paths.map((path) => [path, row]))

/** Where modes are named, which ones, and why. A new mode is named in as many places (docs/contributing.md). */
const NAMING: Record<string, NamedModes> = {
  'protocol/modes.ts': [ALL, 'the rows'],
  'trust/modes/registry.ts': [ALL, 'the lines of the registry'],
  'worker/attestors/registry.ts': [[...CONFIGURABLE_MODES, RENEWAL], 'the lines of the registry'],
  'runner/evidence/registry.ts': [CONFIGURABLE_MODES, 'the lines of the registry, and the mode of a token alone'],
  'runner/evidence/token.ts': [['bootstrap-token', 'runner-token', 'kubernetes'], 'a token tells its mode itself'],

  'trust/modes/bootstrap-token.ts': [['bootstrap-token'], 'what the trust file says of it'],
  'runner/evidence/bootstrap-token.ts': [['bootstrap-token', 'kubernetes'], 'its variables, the help; a JWS there'],
  'runner/command.ts': [['bootstrap-token'], 'the help: the mode where nothing is given'],
  'cli/edge/demo.ts': [['bootstrap-token'], 'the mode of the demo'],

  'trust/modes/runner-token.ts': [['runner-token'], 'what the trust file says of it'],
  'runner/evidence/runner-token.ts': [['runner-token', 'kubernetes'], 'its variables, the help for both; a JWS there'],
  'worker/enrollment/name-runner.ts': [['runner-token', 'kubernetes'], 'the token that is sent tells which'],

  'worker/attestors/minted-token.ts': [MINTED, 'their attestor'],
  'worker/enrollment/token-claims.ts': [MINTED, 'their claims'],
  'worker/store/reservations.ts': [MINTED, 'the transactions that reserve with one'],

  'trust/modes/aws-sts.ts': [['aws-sts'], 'what the trust file says of it'],
  'worker/attestors/aws-sts.ts': [['aws-sts'], 'its attestor'],
  'worker/attestors/aws/arn.ts': [['aws-sts'], 'the claims that the attestor gives'],
  'runner/evidence/aws-sts.ts': [['aws-sts'], 'its variables, their help, and its evidence'],
  'trust/file.ts': [['aws-sts', 'kubernetes'], 'their fields'],
  'trust/compile.ts': [['aws-sts', 'kubernetes'], 'their mappings'],
  'trust/demands.ts': [['aws-sts', 'kubernetes'], 'types of what the trust file asks for'],

  'trust/modes/kubernetes.ts': [['kubernetes'], 'what the trust file says of the three'],
  'trust/bans.ts': [['kubernetes'], 'the runner ID of a node'],
  'trust/issuer.ts': [KUBERNETES, 'the issuer of a cluster tells which'],
  'worker/attestors/kubernetes.ts': [KUBERNETES, 'their attestor'],
  'worker/attestors/workload-claims.ts': [['kubernetes'], 'the claims that the attestor gives'],
  'runner/evidence/kubernetes.ts': [KUBERNETES, 'their evidence'],
  ...rowsOf(
    [
      'trust/clusters.ts',
      'worker/keysets/directory.ts',
      'worker/keysets/key-directory.ts',
      'worker/keysets/lookup.ts',
      'worker/keysets/snapshot.ts',
      'worker/keysets/jwks/fetch.ts',
    ],
    ['kubernetes'],
    'the type of a cluster',
  ),

  'trust/modes/provisioned.ts': [['provisioned'], 'what the trust file says of it'],
  'cli/ca-issue.ts': [['provisioned'], 'the command that issues its certificates'],
  ...rowsOf(
    ['runner/config.ts', 'runner/renewal/boot.ts', 'runner/renewal/provisioned-watch.ts'],
    ['provisioned'],
    'they import the reader of its certificate',
  ),

  'worker/fleet/begin.ts': [['provisioned'], 'a certificate that starts the record itself'],

  'worker/attestors/mtls-renewal.ts': [[RENEWAL], 'its attestor'],
  'worker/enrollment/enroll.ts': [[RENEWAL], 'chooses between enrollment and renewal'],
  'runner/renewal/enroll-client.ts': [[RENEWAL], 'its evidence'],
}

/**
 * `kubernetes` and `provisioned` are words of their own: they count in quotes, as the name of a file, as a key of a
 * table, and, where a runner can be configured so, before a colon as in the help.
 */
function isNamed(mode: string, text: string): boolean {
  if (mode.includes('-')) return text.includes(mode)
  const help = CONFIGURABLE_MODES.some((name) => name === mode) ? `|\\b${mode}:` : ''
  return new RegExp(`['"\`]${mode}['"\`]|/${mode}\\.ts'|^ {2}${mode}[:,]${help}`, 'm').test(text)
}

test('a mode is named in its row, its files, the registries, and where it is said why', () => {
  const namingOf = (isOne: (mode: string) => boolean) => [...ALL, RENEWAL].filter(isOne)
  const found = files.map(({ path, text }) => [path, namingOf((mode) => isNamed(mode, text))] as const)
  const listed = Object.entries(NAMING).map(
    ([path, [modes]]) => [path, namingOf((mode) => modes.includes(mode))] as const,
  )
  expect(Object.fromEntries(found.filter(([, modes]) => modes.length > 0))).toEqual(Object.fromEntries(listed))
})

test('the deployed Worker is not the one that development uses', () => {
  const configuration = readFileSync(join(ROOT, 'wrangler.toml'), 'utf8')
  expect(configuration).toMatch(/^main = "src\/worker\/index\.ts"$/m)
  expect(configuration).not.toContain('dev.ts')
})

const pages = ['README.md', ...readdirSync(join(ROOT, 'docs')).map((name) => `docs/${name}`)]

test('no page has a dead link', () => {
  const dead = pages.flatMap((page) =>
    [...readFileSync(join(ROOT, page), 'utf8').matchAll(/\]\(([^)#:]+)(?:#[^)]*)?\)/g)]
      .map(([, link]) => link ?? '')
      .filter((link) => !existsSync(join(ROOT, dirname(page), link)))
      .map((link) => `${page}: ${link}`),
  )
  expect(dead).toEqual([])
})
