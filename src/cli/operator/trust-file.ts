// Compiles the trust file for a command, with the files that it names: key sets and CA certificates.

import { dirname, resolve } from 'node:path'
import { readCertificate } from '../../node/certificates.ts'
import { quote } from '../../protocol/characters.ts'
import { KEY_SET_BODY_BYTES } from '../../protocol/limits.ts'
import { type Compilation, type Compiled, type CompileOptions, compileTrust } from '../../trust/compile.ts'
import type { CompiledTrust } from '../../trust/compiled.ts'
import { type Mistake, TRUST_FILE_BYTES } from '../../trust/document.ts'
import { CommandError } from './command.ts'
import { readFirst, readWhole } from './files.ts'

/** Compiles the file at `path`; throws a CommandError with every mistake, a line each. */
export const readTrust = async (path: string): Promise<CompiledTrust> => (await readCompiled(path)).trust

/** The same, with what else the compiler says of the file. */
export async function readCompiled(path: string): Promise<Compiled> {
  const compilation = await compileTrustFile(path)
  if (compilation.ok) return compilation.value
  throw new CommandError(`${path} has mistakes`, mistakeLines(path, compilation.error))
}

/**
 * `deployed`: what only the local edge can honour is a mistake. `boundShards`: those of wrangler.toml, where they are
 * known. Throws a CommandError where there is no such file.
 */
export async function compileTrustFile(
  path: string,
  { deployed = false, boundShards }: Partial<Pick<CompileOptions, 'deployed' | 'boundShards'>> = {},
): Promise<Compilation> {
  if (path === '') throw new CommandError('--trust "" names no file')
  const folder = dirname(resolve(path))
  // One byte over the limit is enough for the compiler to say so.
  const file = readFirst(resolve(path), TRUST_FILE_BYTES + 1)
  if (!file.ok) throw new CommandError(`the trust file ${path} ${file.error}; name another with --trust`)
  return compileTrust(file.value, {
    deployed,
    boundShards,
    readFile: (name) => readWhole(resolve(folder, name), KEY_SET_BODY_BYTES),
    isCertificate: (der) => readCertificate(der) !== null,
  })
}

/** Refuses the value of `--tenant` where the trust file at `path` has no such tenant. */
export function requireTenant(trust: CompiledTrust, tenant: string, path: string): void {
  if (trust.tenants.includes(tenant)) return
  throw new CommandError(`--tenant ${quote(tenant)} is not in ${path}; there is ${trust.tenants.join(', ')}`)
}

/** Empty, or that the running edge decides by another trust file than the one at `path`. */
export const otherTrustText = (running: string | undefined, trust: CompiledTrust, path: string): string[] =>
  running === undefined || running === trust.hash
    ? []
    : [`the edge that runs on it decides by another trust file than ${path} is now: start it again`]

/**
 * Who enrolls into a bootstrap tenant that has no entry under `tenants`, to follow its name in a sentence; null where it
 * has one.
 */
export function unlistedText({ trust, listed }: Compiled): string | null {
  if (listed.includes(trust.bootstrapTenant)) return null
  const clusters = trust.clusters.filter(({ workload }) => workload !== null).map(({ name }) => name)
  return clusters.length === 0
    ? 'nothing else names it'
    : `the ServiceAccount that the entry of ${clusters.join(', ')} names enrolls into it`
}

export const mistakeLines = (path: string, mistakes: readonly Mistake[]): string[] =>
  mistakes.map(({ line, column, message }) => `${path}:${line}:${column}: ${message}`)
