// Builds a peer's program from its Go module, in a folder that is kept from run to run.

import { execFile } from 'node:child_process'
import { cpSync, mkdirSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'

export interface Module {
  readonly path: string
  readonly version: string
  /** Package of the program, from the top of the module. */
  readonly program: string
  readonly flags: readonly string[]
}

/** Rejects with the last line that go complained with. */
export async function buildModule(module: Module, cache: string, to: string, signal: AbortSignal): Promise<void> {
  const go = async (args: readonly string[], cwd: string): Promise<string> => {
    const run = promisify(execFile)('go', args, { cwd, signal, maxBuffer: 2 ** 26 })
    return (await run.catch(complain)).stdout
  }
  mkdirSync(cache, { recursive: true })
  const source = join(cache, `${module.path.replaceAll('/', '-')}@${module.version}`)
  const { Dir: folder }: { Dir: string } = JSON.parse(
    await go(['mod', 'download', '-json', `${module.path}@${module.version}`], cache),
  )
  // A copy, since go keeps its own read-only, and a module's own replacements hold only where it is the main one.
  rmSync(source, { recursive: true, force: true })
  cpSync(folder, source, { recursive: true, mode: 0 })
  await promisify(execFile)('chmod', ['-R', 'u+w', source])
  const half = `${to}.new`
  await go(['build', '-buildvcs=false', '-ldflags=-s -w', ...module.flags, '-o', half, module.program], source)
  renameSync(half, to)
  rmSync(source, { recursive: true, force: true })
}

function complain(error: Error & { readonly code?: unknown; readonly stderr?: string }): never {
  if (error.code === 'ENOENT') throw new Error('there is no go on the PATH to build it with')
  throw new Error(error.stderr?.trim().split('\n').at(-1) ?? error.message)
}
