// `muster trust`: checks and compiles the trust file, and prints its JSON Schema.

import { existsSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { writeAtomically } from '../node/atomic-file.ts'
import { quote } from '../protocol/characters.ts'
import { systemClock, toEpochSeconds } from '../protocol/time.ts'
import type { Compilation } from '../trust/compile.ts'
import type { Mistake } from '../trust/document.ts'
import { bindingOf } from '../trust/shards.ts'
import { command, DATABASE, group, print, type SharedOptions } from './operator/command.ts'
import { makeFolder } from './operator/files.ts'

/** What the Worker is bundled with: `#trust` of package.json. */
const COMPILED = '.muster/trust.json'
/** What wrangler's `WRANGLER_COMMAND` says to the build command of something that will be deployed. */
const DEPLOYING = ['deploy', 'versions upload']

export function trustCommand() {
  const trust = group('trust', 'the trust file: who may enroll, and into which tenant')
  trust.addCommand(
    command('check', 'name every mistake in the trust file, with its line and column', [...DATABASE, 'trust'])
      .addHelpText(
        'after',
        '\nWhere there are clusters, a live runner token whose runner ID holds a "/" is a mistake too; D1 knows.\nWith --remote, so is a private issuer, or one with a caFile, which only `muster dev` can reach.\n\nExample:\n  muster trust check --trust trust.yaml',
      )
      .action((options: SharedOptions) => check(options)),
  )
  trust.addCommand(
    command('build', `compile the trust file to ${COMPILED}, which the Worker is bundled with`, ['json', 'trust'])
      .addHelpText('after', '\nwrangler runs it before every dev and deploy.\n\nExample:\n  muster trust build')
      .action((options: SharedOptions) => build(options)),
  )
  trust.addCommand(
    command('schema', 'print the JSON Schema of the trust file, for editors', [])
      .addHelpText('after', '\nExample:\n  muster trust schema > trust.schema.json')
      .action(schema),
  )
  return trust
}

/** Loaded late: with the parser of YAML it is half of what `muster --help` would load. */
const trustFile = () => import('./operator/trust-file.ts')

async function check(options: SharedOptions): Promise<void> {
  const { unlistedText } = await trustFile()
  const compilation = await compileWith(options)
  if (!compilation.ok) return refuse(options, compilation.error)
  const { trust, listed, notes } = compilation.value
  const { bootstrapTenant } = trust
  const unlisted = unlistedText(compilation.value)
  const reserved = trust.clusters.length === 0 ? null : await reservedRunnerId(options)
  if (reserved !== null) {
    const message = `the runner token of ${quote(reserved)} is live, but with clusters "/" is theirs: muster token revoke it`
    return refuse(options, [{ line: 1, column: 1, message }])
  }
  print(options, { ok: true, file: options.trust, mistakes: [], notes, hash: trust.hash }, () =>
    [
      `${options.trust} has no mistakes: ${count(listed.length, 'tenant')}, ${count(trust.clusters.length, 'cluster')}, trust domain ${trust.trustDomain}`,
      `hash ${trust.hash}`,
      ...trust.shards.map(({ tenant, shard }) => `tenant ${tenant} is in the database ${bindingOf(shard)}`),
      ...(unlisted === null
        ? []
        : [`${bootstrapTenant} is the bootstrapTenant; it has no entry under tenants, and ${unlisted}`]),
      ...notes.map((note) => `note: ${note}`),
    ].join('\n'),
  )
}

/** With the bindings of wrangler.toml, where the file places a tenant in one and wrangler.toml is there. */
async function compileWith(options: SharedOptions): Promise<Compilation> {
  const { compileTrustFile } = await trustFile()
  const deployed = options.remote === true
  const compilation = await compileTrustFile(options.trust, { deployed })
  if (!compilation.ok || compilation.value.trust.shards.length === 0) return compilation
  const { isCheckout, readProject, shardsIn } = await import('./edge/project.ts')
  if (!isCheckout()) return compilation
  return compileTrustFile(options.trust, { deployed, boundShards: shardsIn(await readProject(options.env)) })
}

/**
 * A live minted runner ID that only the nodes of clusters may have: the control plane would refuse to serve. Read from
 * the deployed D1, or from the local one where there is a state at all.
 */
async function reservedRunnerId(options: SharedOptions): Promise<string | null> {
  if (!options.remote && !existsSync(join(options.persistTo, 'v3/d1'))) return null
  const { withDatabases } = await import('./store/database.ts')
  const { askAll } = await import('../worker/store/ask-all.ts')
  const { liveRunnerIdWithSlash } = await import('../worker/store/tokens.ts')
  const now = toEpochSeconds(systemClock())
  return withDatabases(options, ({ all }) => askAll(all, (db) => liveRunnerIdWithSlash(db, now)))
}

const count = (n: number, what: string): string => `${n} ${what}${n === 1 ? '' : 's'}`

/** Exit 1 with every mistake: on stderr a line each, on stdout as JSON where that is asked for. */
async function refuse(options: SharedOptions, mistakes: readonly Mistake[]): Promise<void> {
  const { mistakeLines } = await trustFile()
  process.stderr.write(`${mistakeLines(options.trust, mistakes).join('\n')}\n`)
  process.exitCode = 1
  if (!options.json) return
  process.stdout.write(`${JSON.stringify({ ok: false, file: options.trust, mistakes, notes: [], hash: null })}\n`)
}

async function build(options: SharedOptions): Promise<void> {
  // When the trust file does not compile, the result of an earlier one must not be deployed.
  const withdraw = () => rmSync(COMPILED, { force: true })
  const { compileTrustFile } = await trustFile()
  const deployed = DEPLOYING.includes(process.env.WRANGLER_COMMAND ?? '')
  const compilation = await compileTrustFile(options.trust, { deployed }).catch((error: unknown) => {
    withdraw()
    throw error
  })
  if (!compilation.ok) {
    withdraw()
    return refuse(options, compilation.error)
  }
  const { trust } = compilation.value
  makeFolder(dirname(COMPILED))
  writeAtomically(COMPILED, JSON.stringify(trust), 0o644)
  print(
    options,
    { ok: true, file: COMPILED, hash: trust.hash },
    () => `${options.trust} → ${COMPILED} (hash ${trust.hash.slice(0, 12)})`,
  )
}

async function schema(): Promise<void> {
  const [{ TRUST_FILE }, { schemaDocument }] = await Promise.all([
    import('../trust/file.ts'),
    import('../trust/json-schema.ts'),
  ])
  process.stdout.write(`${JSON.stringify(schemaDocument(TRUST_FILE), null, 2)}\n`)
}
