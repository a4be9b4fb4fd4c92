// Finds the checkout, and reads its wrangler.toml through wrangler.

import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import type { Json, V4WorkerOptions } from 'miniflare'
import { writeAtomically } from '../../node/atomic-file.ts'
import { CommandError } from '../operator/command.ts'

/** The folder with wrangler.toml, the Worker's sources and the migrations. */
export const PROJECT = fileURLToPath(new URL('../../../', import.meta.url))

/** False in an installed package, which has neither the Worker's sources nor workerd. */
export function isCheckout(): boolean {
  try {
    import.meta.resolve('miniflare')
    return existsSync(join(PROJECT, 'src/worker/dev.ts'))
  } catch {
    return false
  }
}

export function requireCheckout(command: string): void {
  if (isCheckout()) return
  throw new CommandError(`${command} needs a checkout with its development dependencies: clone it, then npm ci`)
}

export interface Project {
  readonly crons: readonly string[]
  readonly migrations: readonly Migration[]
  readonly variables: Readonly<Record<string, Json>>
  /** Miniflare's options: bindings and compatibility, no code. */
  readonly worker: V4WorkerOptions
  /** Where `wrangler deploy` puts it; null: wrangler.toml does not say. */
  readonly accountId: string | null
  /** The one of shard 0 first. */
  readonly databases: readonly ShardDatabase[]
}

/** What wrangler.toml says of the database of a shard; null: it does not say. */
export interface ShardDatabase {
  readonly shard: number
  readonly name: string | null
  readonly id: string | null
}

/** The shards that wrangler.toml binds; always shard 0. */
export const shardsIn = ({ databases }: Project): number[] => databases.map(({ shard }) => shard)

/** wrangler's environment: of `--env`, or of the variable that wrangler reads; null: the top level of wrangler.toml. */
export const environmentOf = (option: string | undefined): string | null =>
  option ?? (process.env.CLOUDFLARE_ENV || null)

export interface Migration {
  /** The file's name, as it stands in `d1_migrations`. */
  readonly name: string
  readonly statements: readonly string[]
}

/**
 * Takes a second, so the answer is kept until something that it depends on changes. `.dev.vars` and secrets in the
 * environment stay out: they are `wrangler dev`'s.
 */
export async function readProject(option?: string, ending?: AbortSignal): Promise<Project> {
  requireCheckout('a command on the database')
  const environment = environmentOf(option)
  const kept = join(PROJECT, '.wrangler/project', `${fingerprint(environment)}.json`)
  if (existsSync(kept)) return JSON.parse(readFileSync(kept, 'utf8'))
  const answer = await askWrangler(environment, ending)
  const project: Project = JSON.parse(answer)
  try {
    mkdirSync(dirname(kept), { recursive: true })
    writeAtomically(kept, answer, 0o644)
  } catch {
    // In a checkout that cannot be written to, wrangler is asked each time.
  }
  return project
}

/** Changes with everything that wrangler's answer depends on. */
function fingerprint(environment: string | null): string {
  const hash = createHash('sha256').update(JSON.stringify([PROJECT, environment]))
  for (const name of [
    'wrangler.toml',
    'package.json',
    'src/cli/edge/read-project.ts',
    'src/trust/shards.ts',
    ...migrations(),
  ]) {
    hash.update(`${name}\n`).update(readFileSync(join(PROJECT, name)))
  }
  return hash.digest('hex').slice(0, 32)
}

const migrations = (): string[] =>
  readdirSync(join(PROJECT, 'migrations'))
    .sort()
    .map((name) => `migrations/${name}`)

async function askWrangler(environment: string | null, ending: AbortSignal | undefined): Promise<string> {
  const program = join(PROJECT, 'src/cli/edge/read-project.ts')
  const args = environment === null ? [program] : [program, environment]
  const options = { maxBuffer: 16 * 1024 * 1024, ...(ending && { signal: ending }) }
  const quiet = { WRANGLER_LOG: 'none', WRANGLER_SEND_METRICS: 'false', NODE_OPTIONS: '' }
  // The answer is kept, so compiled code of wrangler would hardly be used again, and takes half a second to write.
  const env = { ...process.env, ...quiet, NODE_DISABLE_COMPILE_CACHE: '1' }
  try {
    return (await promisify(execFile)(process.execPath, args, { ...options, env })).stdout
  } catch (error) {
    ending?.throwIfAborted()
    const complaint = error instanceof Error && 'stderr' in error ? String(error.stderr) : String(error)
    throw new CommandError(`wrangler.toml: ${firstErrorOf(complaint)}`)
  }
}

/** The message of the error that ended a Node, in one line; wrangler lists mistakes under a line of its own. */
function firstErrorOf(complaint: string): string {
  const [, message] = /Error: (?:Processing .*\n\s*- )?([\s\S]*?)(?:\n\s+at |$)/.exec(complaint) ?? []
  return (message ?? complaint).trim().replaceAll(/\s+/g, ' ')
}
