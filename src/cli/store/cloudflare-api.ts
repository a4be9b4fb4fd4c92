// Cloudflare's REST API, called with wrangler's login.

import { execFile } from 'node:child_process'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { printable } from '../../protocol/labels.ts'
import { err, ok, type Result } from '../../protocol/result.ts'
import { PROJECT } from '../edge/project.ts'
import { CommandError } from '../operator/command.ts'

/** Headers that prove who calls. */
export type Login = Readonly<Record<string, string>>

/**
 * The login that wrangler would use: CLOUDFLARE_API_TOKEN, CLOUDFLARE_API_KEY with CLOUDFLARE_EMAIL, or what
 * `wrangler login` left, renewed where it has ended.
 */
export async function readLogin(): Promise<Login> {
  // wrangler takes it first, too, and two seconds to say so.
  const { CLOUDFLARE_API_TOKEN: given } = process.env
  if (given) return { authorization: `Bearer ${given}` }
  const program = join(dirname(createRequire(import.meta.url).resolve('wrangler/package.json')), 'bin/wrangler.js')
  const args = [program, 'auth', 'token', '--json', '--config', join(PROJECT, 'wrangler.toml')]
  const env = { ...process.env, WRANGLER_SEND_METRICS: 'false' }
  const answer = await promisify(execFile)(process.execPath, args, { env }).then(
    ({ stdout }) => JSON.parse(stdout),
    // It exits with 1 where there is none.
    () => ({}),
  )
  const { token, key, email } = answer
  if (typeof token === 'string') return { authorization: `Bearer ${token}` }
  if (typeof key === 'string' && typeof email === 'string') return { 'x-auth-key': key, 'x-auth-email': email }
  throw new CommandError('there is no login at Cloudflare: run npx wrangler login, or set CLOUDFLARE_API_TOKEN')
}

/** Milliseconds for one answer. */
const PATIENCE = 30_000

export interface Refused {
  readonly status: number
  /** What Cloudflare says of it, on one line. */
  readonly text: string
}

/**
 * GET, or POST where there is a body; gives the answer's `result`. Throws a CommandError where the API cannot be
 * reached or does not take the login.
 */
export async function callApi(login: Login, path: string, body?: unknown): Promise<Result<unknown, Refused>> {
  // As wrangler has it.
  const base = process.env.CLOUDFLARE_API_BASE_URL ?? 'https://api.cloudflare.com/client/v4'
  const response = await fetch(`${base}${path}`, {
    headers: { ...login, 'content-type': 'application/json' },
    ...(body !== undefined && { method: 'POST', body: JSON.stringify(body) }),
    signal: AbortSignal.timeout(PATIENCE),
  }).catch((error: unknown) => {
    throw new CommandError(`${base} cannot be reached (${causeOf(error)})`)
  })
  const answer: Answer | null = await response.json().catch(() => null)
  if (answer?.success === true) return ok(answer.result)
  const text = answer?.errors?.map(({ message }) => message).join('; ') || `status ${response.status}`
  if (response.status === 401 || response.status === 403) {
    throw new CommandError(
      `Cloudflare does not take the login (${printable(text)}): run npx wrangler login, or set a CLOUDFLARE_API_TOKEN that may edit D1`,
    )
  }
  return err({ status: response.status, text: printable(text) })
}

interface Answer {
  readonly success?: boolean
  readonly errors?: readonly { readonly message: string }[]
  readonly result?: unknown
}

/** The system's code is in what `fetch` gives as the cause. */
function causeOf(error: unknown): string {
  if (!(error instanceof Error)) return 'unknown error'
  return error.cause instanceof Error && 'code' in error.cause ? String(error.cause.code) : error.name
}
