// `muster trust`: check, compile and describe the trust file; and the trust file as other commands read it.

import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { type Compilation, compileTrust } from '../trust/compile.ts'
import type { CompiledTrust } from '../trust/compiled.ts'
import { TRUST_FILE_BYTES } from '../trust/document.ts'
import { TRUST_SCHEMA } from '../trust/schema.ts'
import { CommandError, command, print, type SharedOptions } from './command.ts'

/** What the Worker is bundled with: `#trust` of package.json. */
const COMPILED = '.muster/trust.json'

export function trustCommand() {
  const trust = command('trust', 'the trust file: who may enroll, and into which tenant')
  trust.addCommand(
    command('check', 'name every mistake in the trust file, with its line and column')
      .addHelpText('after', '\nWith --remote, a caFile that only `muster dev` can honour is a mistake too.')
      .action((options: SharedOptions) => check(options)),
  )
  trust.addCommand(
    command('build', `compile the trust file to ${COMPILED}, which the Worker is bundled with`)
      .addHelpText('after', '\nwrangler runs it before every dev and deploy.')
      .action((options: SharedOptions) => build(options)),
  )
  trust.addCommand(
    command('schema', 'print the JSON Schema of the trust file, for editors').action(() => {
      process.stdout.write(`${JSON.stringify(TRUST_SCHEMA, null, 2)}\n`)
    }),
  )
  return trust
}

/** Compiles the file at `path`; throws a CommandError with every mistake, a line each. */
export async function readTrust(path: string): Promise<CompiledTrust> {
  const compilation = await compileFile(path)
  if (compilation.ok) return compilation.trust
  throw new CommandError(`${path} has mistakes\n${mistakeLines(path, compilation).join('\n')}`)
}

async function compileFile(path: string, deployed = false): Promise<Compilation> {
  const folder = dirname(resolve(path))
  const bytes = readBounded(resolve(path), TRUST_FILE_BYTES)
  if ('fault' in bytes) throw new CommandError(`the trust file ${path} ${bytes.fault}; name another with --trust`)
  return compileTrust(bytes, { deployed, readFile: (name) => readBounded(resolve(folder, name), 1024 * 1024) })
}

function readBounded(path: string, limit: number): Uint8Array | { readonly fault: string } {
  try {
    const bytes = readFileSync(path)
    return bytes.length > limit ? { fault: `has ${bytes.length} bytes; at most ${limit} are read` } : bytes
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown error'
    return { fault: code === 'ENOENT' ? 'does not exist' : `cannot be read (${code})` }
  }
}

function mistakeLines(path: string, compilation: Compilation): string[] {
  return compilation.ok
    ? []
    : compilation.mistakes.map(({ line, column, message }) => `${path}:${line}:${column}: ${message}`)
}

async function check(options: SharedOptions): Promise<void> {
  const compilation = await compileFile(options.trust, options.remote === true)
  if (!compilation.ok) {
    process.stderr.write(`${mistakeLines(options.trust, compilation).join('\n')}\n`)
    if (options.json)
      process.stdout.write(
        `${JSON.stringify({ ok: false, file: options.trust, mistakes: compilation.mistakes, notes: [], hash: null })}\n`,
      )
    process.exitCode = 1
    return
  }
  const { trust, notes } = compilation
  print(options, { ok: true, file: options.trust, mistakes: [], notes, hash: trust.hash }, () =>
    [
      `${options.trust} is right: ${count(trust.tenants.length, 'tenant')}, ${count(trust.clusters.length, 'cluster')}, trust domain ${trust.trustDomain}`,
      `hash ${trust.hash}`,
      ...notes.map((note) => `note: ${note}`),
    ].join('\n'),
  )
}

const count = (n: number, what: string): string => `${n} ${what}${n === 1 ? '' : 's'}`

async function build(options: SharedOptions): Promise<void> {
  const compilation = await compileFile(options.trust)
  if (!compilation.ok) {
    // An earlier good file must not be deployed in place of this one.
    rmSync(COMPILED, { force: true })
    process.stderr.write(`${mistakeLines(options.trust, compilation).join('\n')}\n`)
    process.exitCode = 1
    return
  }
  mkdirSync(dirname(COMPILED), { recursive: true })
  const draft = join(dirname(COMPILED), `trust.json.${process.pid}`)
  writeFileSync(draft, JSON.stringify(compilation.trust))
  renameSync(draft, COMPILED)
  print(
    options,
    { ok: true, file: COMPILED, hash: compilation.trust.hash },
    () => `${options.trust} → ${COMPILED} (hash ${compilation.trust.hash.slice(0, 12)})`,
  )
}
