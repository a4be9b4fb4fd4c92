// Finds the AWS credentials of this machine: the links of the SDK's default chain, one after the other, each with its
// own limit and its own cause.

import { codeOf } from '../../node/errors.ts'
import { type Network, rootsAdvice } from '../../node/http-client.ts'
import { causeText, directAgent, isUnknownCa, ProxyAgent, ProxyError, untrustedText } from '../../node/proxy-agent.ts'
import { err, ok, type Result } from '../../protocol/result.ts'
import { type Milliseconds, milliseconds } from '../../protocol/time.ts'
import { type Fields, sanitized } from '../environment/log.ts'
import { type AwsCredentials, containerCredentials, containerVariable } from './aws-container.ts'
import { profileSettings } from './aws-files.ts'

/** One line for an operator, without any part of a credential. */
class LinkError extends Error {
  override readonly name: string = 'LinkError'
}

/** A link did not answer in its time. */
class LinkTimeout extends LinkError {
  override readonly name = 'LinkTimeout'
}

export interface FoundCredentials {
  readonly credentials: AwsCredentials
  /** The account and role that these credentials seem to belong to. */
  readonly identity: Fields
}

/** The error names every link that was tried, with its cause. Never rejects. */
export type CredentialFinder = (region: string, network: Network) => Promise<Result<FoundCredentials, string>>

/** A `credential_process`, and whatever else a profile may lead to. */
const PROFILE_LIMIT = milliseconds(60_000)
/** STS, through a proxy at worst. */
const STS_LIMIT = milliseconds(15_000)
/** The machine's own endpoint: where there is one, it answers at once. */
const METADATA_LIMIT = milliseconds(5000)
const METADATA_TIMEOUT = milliseconds(1000)

interface Link {
  readonly name: string
  readonly limit: Milliseconds
  readonly find: () => Promise<AwsCredentials>
}

/** Credentials are found anew each time, so that a later enrollment never signs with expired ones. */
export function credentialFinder(): CredentialFinder {
  /** Programs that outlasted their limit. The next search waits for them and does not start them again. */
  const late = new Map<string, Promise<AwsCredentials>>()

  async function tryLink({ name, limit, find }: Link): Promise<AwsCredentials> {
    const running = late.get(name) ?? find()
    late.set(name, running)
    running.catch(() => {})
    try {
      const found = await within(limit, running)
      late.delete(name)
      return isOver(found) ? await within(limit, find()) : found
    } catch (error) {
      // Only a program runs on; a request that was not answered is closed.
      if (name !== PROFILE || !(error instanceof LinkTimeout)) late.delete(name)
      throw error
    }
  }

  return async (region, network) => {
    const causes: string[] = []
    const over = new AbortController()
    try {
      for (const link of await links(region, network, over.signal)) {
        try {
          const credentials = await tryLink(link)
          return ok({ credentials, identity: identityOf(link.name, credentials) })
        } catch (error) {
          causes.push(`${link.name}: ${errorText(error, network.rootsVariable)}`)
          if (endsChain(error)) break
        }
      }
      return err(`no AWS credentials: ${causes.join('; ')}`)
    } finally {
      over.abort()
    }
  }
}

const isOver = ({ expiration }: AwsCredentials): boolean =>
  expiration !== undefined && expiration.getTime() <= Date.now()

const PROFILE = 'profile'
const WEB_IDENTITY = 'web identity'

/**
 * In the SDK's order. What is asked of STS and SSO obeys the proxy's rules; the container's and the machine's own
 * endpoints are asked directly.
 */
async function links(region: string, network: Network, signal: AbortSignal): Promise<readonly Link[]> {
  const { env } = process
  // Loaded on use: the SDK costs more memory than the rest of a runner that never needs it.
  const { fromEnv, fromIni, fromInstanceMetadata, fromTokenFile } = await import('@aws-sdk/credential-providers')
  const httpsAgent = new ProxyAgent({ rules: network.rules, roots: network.extraRoots(), signal })
  const asked = {
    // The SDK's own warnings would go to the console beside our JSON lines.
    logger: SILENT,
    // No region here: that would also move SSO away from its own.
    clientConfig: { requestHandler: { httpAgent: directAgent(), httpsAgent } },
    parentClientConfig: { region },
  }
  const missing = (text: string) => () => Promise.reject(new LinkError(text))
  const isSet = (...names: string[]): boolean => names.every((name) => Boolean(env[name]))
  const environment = isSet('AWS_PROFILE')
    ? missing('AWS_PROFILE is set and goes before it')
    : isSet('AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY')
      ? fromEnv({ logger: SILENT })
      : missing('AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not both set')
  const webIdentity = isSet('AWS_WEB_IDENTITY_TOKEN_FILE', 'AWS_ROLE_ARN')
    ? fromTokenFile(asked)
    : missing('AWS_WEB_IDENTITY_TOKEN_FILE and AWS_ROLE_ARN are not both set')
  const disabled = isSet('AWS_EC2_METADATA_DISABLED') && env.AWS_EC2_METADATA_DISABLED !== 'false'
  const metadata = disabled
    ? missing('AWS_EC2_METADATA_DISABLED is set')
    : fromInstanceMetadata({ timeout: METADATA_TIMEOUT, maxRetries: 0, logger: SILENT })
  return [
    { name: 'environment', limit: STS_LIMIT, find: async () => environment() },
    { name: PROFILE, limit: PROFILE_LIMIT, find: async () => fromIni({ ...asked, ignoreCache: true })() },
    { name: WEB_IDENTITY, limit: STS_LIMIT, find: async () => webIdentity() },
    { name: 'container', limit: STS_LIMIT, find: async () => orThrow(await containerCredentials(env, network)) },
    // A container has no other: its host's role is not its own.
    ...(containerVariable(env) === null
      ? [{ name: 'instance metadata', limit: METADATA_LIMIT, find: async () => metadata() }]
      : []),
  ]
}

function orThrow<T>(result: Result<T, string>): T {
  if (result.ok) return result.value
  throw new LinkError(result.error)
}

const nothing = (): void => undefined
const SILENT = { trace: nothing, debug: nothing, info: nothing, warn: nothing, error: nothing }

async function within<T>(limit: Milliseconds, work: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const over = new Promise<never>((_, fail) => {
    timer = setTimeout(() => fail(new LinkTimeout(`no answer within ${limit / 1000} s`)), limit)
  })
  try {
    return await Promise.race([work, over])
  } finally {
    clearTimeout(timer)
  }
}

/**
 * A link that is not set up, or that throws on the way to find out, leads on to the next. One that asked AWS and got
 * nothing ends the chain, since the next link would give an identity that was not meant.
 */
function endsChain(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  return error instanceof LinkTimeout || '$metadata' in error || ('tryNextLink' in error && error.tryNextLink === false)
}

/**
 * The message of the SDK, of AWS or of the system. Any other error is named, not quoted: a parser's error quotes what it
 * parsed, a `credential_process`'s its command line.
 */
function errorText(error: unknown, rootsVariable: string): string {
  if (!(error instanceof Error)) return 'unknown'
  const advice = rootsAdvice(rootsVariable)
  if (isUnknownCa(error)) return `the certificate of AWS ${untrustedText(error)}${advice}`
  if (error instanceof ProxyError) return `${error.message}${error.unknownCa ? advice : ''}`
  if (error.message.startsWith('Command failed')) return 'its credential_process failed'
  const worded = error instanceof LinkError || WORDED.includes(error.name) || '$fault' in error
  const [text, code] = [causeText(error), codeOf(error, error.name)]
  if ('syscall' in error) return text.includes(code) ? text : `${text} (${code})`
  return worded && (!text.includes('JSON') || text.endsWith(INVALID_JSON)) ? text : code
}
/** The SDK's own words, that quote nothing. */
const INVALID_JSON = 'credential_process returned invalid JSON.'
const WORDED = ['CredentialsProviderError', 'ProviderError', 'TokenProviderError', 'InstanceMetadataV1FallbackError']

function identityOf(link: string, { accountId }: AwsCredentials): Fields {
  const variable = (name: string) => process.env[name] || null
  const profile = link === PROFILE ? profileSettings(variable) : new Map<string, string>()
  const arn = (link === WEB_IDENTITY ? variable('AWS_ROLE_ARN') : profile.get('role_arn')) ?? ''
  // arn:aws:iam::<account>:role/<path>/<name>
  const [, , , , ofRole, resource = ''] = arn.split(':')
  const account = accountId ?? (ofRole || profile.get('sso_account_id'))
  const role = resource.split('/').at(-1) || profile.get('sso_role_name')
  return { credentials: link, account: sanitized(account), role: sanitized(role) }
}
