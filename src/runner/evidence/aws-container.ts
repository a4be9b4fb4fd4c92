// Asks the credential endpoint of a container (ECS, EKS Pod Identity). The SDK's client for it knows no proxy, no
// further root and no bound.

import { readRegularFile } from '../../node/bounded-file.ts'
import { messageOf } from '../../node/errors.ts'
import { exchange, type Network } from '../../node/http-client.ts'
import { bareHost, isLoopback } from '../../node/proxy-rules.ts'
import { err, ok, type Result } from '../../protocol/result.ts'
import { isObject, readJson } from '../../protocol/strict-json.ts'
import { milliseconds } from '../../protocol/time.ts'

export interface AwsCredentials {
  readonly accessKeyId: string
  readonly secretAccessKey: string
  readonly sessionToken?: string | undefined
  readonly expiration?: Date | undefined
  readonly accountId?: string | undefined
}

const VARIABLES = ['AWS_CONTAINER_CREDENTIALS_RELATIVE_URI', 'AWS_CONTAINER_CREDENTIALS_FULL_URI'] as const
const TOKEN_FILE = 'AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE'

/** The endpoints of ECS and EKS. Beside this machine, plain http may go to these alone. */
const LINK_LOCAL = ['169.254.170.2', '169.254.170.23', 'fd00:ec2::23']

/** Long, because EKS's agent asks AWS before it answers. */
const TIMEOUT = milliseconds(5000)
const ANSWER_BYTES = 64 * 1024
const TOKEN_BYTES = 64 * 1024

/** The variable that names the endpoint; null where there is none. */
export const containerVariable = (env: NodeJS.ProcessEnv) => VARIABLES.find((name) => env[name]) ?? null

/** The error is one line without anything of the answer or the token. Never rejects. */
export async function containerCredentials(
  env: NodeJS.ProcessEnv,
  network: Network,
): Promise<Result<AwsCredentials, string>> {
  const variable = containerVariable(env)
  if (variable === null) return err(`${VARIABLES.join(' and ')} are not set`)
  const value = env[variable] ?? ''
  const url = URL.parse(variable === VARIABLES[0] ? `http://${LINK_LOCAL[0]}${value}` : value)
  if (url === null || !['http:', 'https:'].includes(url.protocol)) return err(`${variable} is not a URL`)
  if (url.protocol === 'http:' && !isLoopback(url.hostname) && !LINK_LOCAL.includes(bareHost(url.hostname))) {
    return err(`${variable} is plain http to another machine`)
  }
  const token = authorization(env)
  if (!token.ok) return token
  const headers = { accept: 'application/json', ...(token.value !== null && { authorization: token.value }) }
  const answer = await exchange(url, network, { method: 'GET', headers, timeout: TIMEOUT, limit: ANSWER_BYTES })
  if (!answer.ok) return err(`${variable}: ${answer.error}`)
  const { status, body } = answer.value
  if (status !== 200) return err(`${variable}: ${url.host} answers HTTP ${status}`)
  const credentials = parseCredentials(body)
  return credentials === null ? err(`${variable}: what ${url.host} answers is no credentials`) : ok(credentials)
}

function parseCredentials(body: Uint8Array): AwsCredentials | null {
  const reading = readJson(body)
  if (!reading.ok || !isObject(reading.value)) return null
  const { AccessKeyId, SecretAccessKey, Token, AccountId } = reading.value
  if (typeof AccessKeyId !== 'string' || typeof SecretAccessKey !== 'string' || typeof Token !== 'string') return null
  const accountId = typeof AccountId === 'string' ? AccountId : undefined
  return { accessKeyId: AccessKeyId, secretAccessKey: SecretAccessKey, sessionToken: Token, accountId }
}

/** Read anew each time, since EKS rotates the file. */
function authorization(env: NodeJS.ProcessEnv): Result<string | null, string> {
  const file = env[TOKEN_FILE]
  if (!file) return ok(env.AWS_CONTAINER_AUTHORIZATION_TOKEN || null)
  try {
    return ok(readRegularFile(file, TOKEN_BYTES).trim())
  } catch (error) {
    return err(`${TOKEN_FILE} cannot be read: ${messageOf(error)}`)
  }
}
