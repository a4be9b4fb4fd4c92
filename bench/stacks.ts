// Reads the stacks that `perf script` prints, and tells by a stack in what phase of a request workerd was.

export interface Frame {
  readonly symbol: string
  /** Line of the Worker's bundle; null for a frame of workerd, of V8, of Miniflare or of the kernel. */
  readonly line: number | null
}

/** Innermost frame first. */
export function readSamples(script: string): Frame[][] {
  return script
    .split('\n\n')
    .map((sample) => sample.split('\n').flatMap(frameOf))
    .filter((frames) => frames.length > 0)
}

/** `    <address> <symbol> (<file>)`; V8 calls a function `JS:*name file:line:column`. */
function frameOf(text: string): Frame[] {
  const [, symbol] = /^\s+[0-9a-f]+ (.*) \([^()]*\)$/.exec(text) ?? []
  if (symbol === undefined) return []
  const [, line] = /\bworker\.mjs:(\d+)/.exec(symbol) ?? []
  return [{ symbol, line: line === undefined ? null : Number(line) }]
}

type Rule = readonly [phase: string, pattern: RegExp]

/** These count wherever they stand in a stack: what they call is theirs. */
const WHOLE: readonly Rule[] = [
  [
    'opening and closing objects',
    /worker_new_actor|Worker::Actor::(?:~?Actor\b|Impl)|ActorSqlite::~?ActorSqlite|ActorHandle::~/,
  ],
  // Miniflare's Worker and object that stand for D1. A deployed Muster pays nothing for what is inside of D1.
  [
    'D1 emulation',
    /JS:.* (?:database|entry|object-entry)\.worker\.js:|miniflare:|ActorSqlite::ExplicitTxn|api::SqlStorage|DurableObjectTransaction/,
  ],
  [
    "an object's commit and alarm",
    /ActorSqlite::(?:startImplicit|commit|startPre|requestSch)|AlarmScheduler|ActorSqliteHooks/,
  ],
]

/** Of the others the innermost frame decides that fits a rule or is JavaScript of ours. */
const INNERMOST: readonly Rule[] = [
  [
    'garbage collection',
    /Heap::(?:Collect|Perform)|Scaveng|MinorGC|MarkCompact|ConcurrentMark|[Ss]weep|cppgc::internal::(?:Marker|Stats)/,
  ],
  [
    'compiling JavaScript',
    /CompilationJob|v8::internal::(?:compiler|baseline|maglev|Compiler|interpreter)::|OptimizingCompile/,
  ],
  ["an object's storage", /SyncKvStorage|SqliteKv::|DurableObjectStorage|SqliteDatabase::/],
  ['cryptography', /SubtleCrypto|CryptoKey|EVP_|ECDSA|ecdsa|bssl::|^_*ecp_|^beeu_|^bn_|^RSA_/],
  ['calls to objects', /JsRpc|Value(?:Des|S)erializer|erializeV8Value|jsg::(?:Des|S)erializer|getClientForOneCall/],
  ['D1 binding', /cloudflare-internal:d1-api|api::Fetcher::fetch|fetchImplNoOutputLock/],
  ['log', /handleLog|logMessage|api::Console|::console/],
  [
    'HTTP and sockets',
    /kj::.*Http|Http(?:Input|Output)|^tcp_|^sock_|^__sys_send|^__sys_recv|kj::.*AsyncStream|api::(?:Readable|Reader|Request|Response|Headers|Body|Writ)/,
  ],
]

/** What is none of these, by the outermost things that it may be. */
const REST: readonly Rule[] = [
  ['isolates, promises, bindings', /workerd::|v8::|Builtins_/],
  ['event loop', /kj::|kj_rs|tokio/],
]

/** `fileAt` gives the source file of a line of the bundle. */
export function phaseOf(frames: readonly Frame[], fileAt: (line: number) => string): string {
  const fits = ([, pattern]: Rule): boolean => frames.some(({ symbol }) => pattern.test(symbol))
  const whole = WHOLE.find(fits)
  if (whole !== undefined) return whole[0]
  for (const { symbol, line } of frames) {
    if (line !== null) return fileAt(line).startsWith('src/') ? 'our JavaScript' : 'libraries'
    const known = INNERMOST.find(([, pattern]) => pattern.test(symbol))
    if (known !== undefined) return known[0]
  }
  return REST.find(fits)?.[0] ?? 'kernel and the rest'
}
