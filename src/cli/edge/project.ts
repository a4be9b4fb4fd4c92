// The project: where it lies, and what its wrangler.toml says.

import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import type { Json, V4WorkerOptions } from 'miniflare'
import { CommandError } from '../command.ts'

/** The folder with wrangler.toml, the Worker's sources and the migrations. */
export const PROJECT = fileURLToPath(new URL('../../../', import.meta.url))

export interface Project {
  readonly crons: readonly string[]
  readonly migrations: readonly Migration[]
  readonly variables: Readonly<Record<string, Json>>
  /** Miniflare's options: bindings and compatibility, no code. */
  readonly worker: V4WorkerOptions
}

export interface Migration {
  /** The file's name, as it stands in `d1_migrations`. */
  readonly name: string
  readonly statements: readonly string[]
}

/** `.dev.vars` and secrets in the environment stay out: they are `wrangler dev`'s. */
export async function readProject(environment?: string, ending?: AbortSignal): Promise<Project> {
  const program = join(PROJECT, 'src/cli/edge/read-project.ts')
  const args = environment === undefined ? [program] : [program, environment]
  const options = { maxBuffer: 16 * 1024 * 1024, ...(ending && { signal: ending }) }
  const env = { ...process.env, WRANGLER_LOG: 'none', WRANGLER_SEND_METRICS: 'false', NODE_OPTIONS: '' }
  try {
    const { stdout } = await promisify(execFile)(process.execPath, args, { ...options, env })
    return JSON.parse(stdout)
  } catch (error) {
    ending?.throwIfAborted()
    const complaint = error instanceof Error && 'stderr' in error ? String(error.stderr) : String(error)
    throw new CommandError(`wrangler.toml: ${complaint.match(/Error: (.*)/)?.[1] ?? complaint.trim().split('\n')[0]}`)
  }
}
