// Calls Cloudflare's REST API with wrangler's login.

import { execFile } from 'node:child_process'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import * as v from 'valibot'
import { printable, quote } from '../../protocol/characters.ts'
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
  // wrangler takes it first, too; to ask wrangler for it would take two seconds.
  const { CLOUDFLARE_API_TOKEN: given } = process.env
  if (given) return { authorization: `Bearer ${given}` }
  const program = join(dirname(createRequire(import.meta.url).resolve('wrangler/package.json')), 'bin/wrangler.js')
  const args = [program, 'auth', 'token', '--json', '--config', join(PROJECT, 'wrangler.toml')]
  const env = { ...process.env, WRANGLER_SEND_METRICS: 'false' }
  const printed = await promisify(execFile)(process.execPath, args, { env }).then(
    ({ stdout }) => stdout,
    // wrangler exits with 1 where nobody is logged in.
    () => '{}',
  )
  const { token, key, email } = v.parse(v.fallback(LOGIN, {}), printed)
  if (token !== undefined) return { authorization: `Bearer ${token}` }
  if (key !== undefined && email !== undefined) return { 'x-auth-key': key, 'x-auth-email': email }
  throw new CommandError('there is no login at Cloudflare: run npx wrangler login, or set CLOUDFLARE_API_TOKEN')
}

const LOGIN = v.pipe(
  v.string(),
  v.parseJson(),
  v.object({ token: v.optional(v.string()), key: v.optional(v.string()), email: v.optional(v.string()) }),
)

/** How long one answer may take, in milliseconds, and how many bytes it may have. */
const PATIENCE = 30_000
const LARGEST = 64 * 1024 * 1024

export interface Refused {
  readonly status: number
  /** Cloudflare's own message, on one line. */
  readonly text: string
}

/** What every answer of the API is. */
const ANSWER = v.pipe(
  v.string(),
  v.parseJson(),
  v.object({
    success: v.boolean(),
    errors: v.optional(v.array(v.object({ message: v.string() })), []),
    result: v.optional(v.unknown()),
  }),
)

/**
 * GET, or POST where there is a body; gives the answer's `result` in its `shape`. Throws a CommandError where the API
 * cannot be reached, does not take the login or answers in another shape.
 */
export async function callApi<S extends v.GenericSchema>(
  login: Login,
  path: string,
  shape: S,
  body?: unknown,
): Promise<Result<v.InferOutput<S>, Refused>> {
  // wrangler reads the same variable.
  const base = process.env.CLOUDFLARE_API_BASE_URL ?? 'https://api.cloudflare.com/client/v4'
  const url = URL.parse(`${base}${path}`)
  if (url === null) throw new CommandError(`CLOUDFLARE_API_BASE_URL ${quote(base)} is not a URL`)
  const reached = await reach(url, {
    method: body === undefined ? 'GET' : 'POST',
    headers: { ...login, 'content-type': 'application/json' },
    ...(body !== undefined && { body: JSON.stringify(body) }),
    timeout: PATIENCE,
    limit: LARGEST,
  })
  if (!reached.ok) throw new CommandError(`Cloudflare's API is not reached: ${reached.error}`)
  const { status } = reached.value
  const answer = v.safeParse(ANSWER, new TextDecoder().decode(reached.value.body))
  if (answer.success && answer.output.success) {
    const result = v.safeParse(shape, answer.output.result)
    if (result.success) return ok(result.output)
    throw new CommandError(`${url.host} answers HTTP ${status}, but not what Cloudflare’s API answers`)
  }
  const errors = answer.success ? answer.output.errors : []
  const text = printable(errors.map(({ message }) => message).join('; ') || `status ${status}`)
  if (status !== 401 && status !== 403) return err({ status, text })
  throw new CommandError(
    `Cloudflare does not take the login (${text}): run npx wrangler login, or set a CLOUDFLARE_API_TOKEN that may edit D1`,
  )
}
