// Cloudflare's REST API, called with wrangler's login.

import { execFile } from 'node:child_process'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { printable } from '../../protocol/characters.ts'
import { err, ok, type Result } from '../../protocol/result.ts'
import { PROJECT } from '../edge/project.ts'
import { CommandError } from '../operator/command.ts'
import { reach } from '../operator/network.ts'

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

/** Milliseconds for one answer, and the most bytes of it. */
const PATIENCE = 30_000
const LARGEST = 64 * 1024 * 1024

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
  const url = URL.parse(`${base}${path}`)
  if (url === null) throw new CommandError(`CLOUDFLARE_API_BASE_URL ${JSON.stringify(base)} is not a URL`)
  const reached = await reach(url, {
    method: body === undefined ? 'GET' : 'POST',
    headers: { ...login, 'content-type': 'application/json' },
    ...(body !== undefined && { body: JSON.stringify(body) }),
    timeout: PATIENCE,
    limit: LARGEST,
  })
  if (!reached.ok) throw new CommandError(`Cloudflare's API is not reached: ${reached.error}`)
  const { status } = reached.value
  const answer = readAnswer(reached.value.body)
  if (answer?.success === true) return ok(answer.result)
  const text = printable(answer?.errors?.map(({ message }) => message).join('; ') || `status ${status}`)
  if (status !== 401 && status !== 403) return err({ status, text })
  throw new CommandError(
    `Cloudflare does not take the login (${text}): run npx wrangler login, or set a CLOUDFLARE_API_TOKEN that may edit D1`,
  )
}

interface Answer {
  readonly success?: boolean
  readonly errors?: readonly { readonly message: string }[]
  readonly result?: unknown
}

/** Null: not JSON, so from somebody else than the API. */
function readAnswer(body: Uint8Array): Answer | null {
  try {
    return JSON.parse(new TextDecoder().decode(body))
  } catch {
    return null
  }
}
