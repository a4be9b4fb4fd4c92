// Makes the evidence of `aws-sts`: a GetCallerIdentity request, signed in headers, that the control plane sends in our
// place.

import type { AwsV4Signer } from 'aws4fetch'
import { codeOf } from '../../node/errors.ts'
import { type Network, rootsAdvice } from '../../node/http-client.ts'
import { directAgent, isUnknownCa, ProxyAgent, ProxyError, untrustedText } from '../../node/proxy-agent.ts'
import { everyCharacter, isLowerOrDigit } from '../../protocol/characters.ts'
import { err, ok, type Result } from '../../protocol/result.ts'
import { type EpochMilliseconds, type Milliseconds, milliseconds } from '../../protocol/time.ts'
import { type Evidence, type EvidenceMode, requires } from './evidence.ts'

export interface AwsCredentials {
  readonly accessKeyId: string
  readonly secretAccessKey: string
  readonly sessionToken?: string | undefined
}

export interface AwsEvidence {
  readonly mode: 'aws-sts'
  readonly region: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/** One line for an operator, without any part of a credential. */
export class AwsEvidenceError extends Error {
  override readonly name = 'AwsEvidenceError'
}

export const awsSts: EvidenceMode = {
  variables: ['AWS_REGION'],
  help: `
  AWS_REGION                 aws-sts: the region whose STS is asked; credentials by the AWS SDK's default chain`,
  read(settings) {
    const rule = 'must be the name of a region, such as us-east-1'
    const region = settings.word('AWS_REGION', 40, (text) => everyCharacter(text, isRegionCharacter), rule)
    if (region === null) return err(settings.has('AWS_REGION') ? null : requires('aws-sts', 'AWS_REGION'))
    for (const name of SDK_FILES) settings.path(name)
    return ok({
      path: settings.raw('AWS_WEB_IDENTITY_TOKEN_FILE'),
      modeAt: () => 'aws-sts',
      missingAt: () => null,
      gather: (nonce, now, network) => gather({ region, nonce, now, network }),
    })
  },
}

/** Read by the SDK as they stand; it expands `~/` in the paths of its configuration files, which are not here. */
const SDK_FILES = ['AWS_WEB_IDENTITY_TOKEN_FILE', 'AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE']

const isRegionCharacter = (c: string): boolean => isLowerOrDigit(c) || c === '-'

async function gather(request: AwsRequest): Promise<Result<Evidence, string>> {
  try {
    return ok({ attestation: { ...(await gatherAwsEvidence(request)) }, described: { region: request.region } })
  } catch (error) {
    if (error instanceof AwsEvidenceError) return err(error.message)
    throw error
  }
}

/** Container and metadata endpoints are on the machine: where there is one, it answers at once. */
const ENDPOINT_TIMEOUT = milliseconds(1000)
/** The whole chain: the SDK alone would wait for ever for a container endpoint that took the connection. */
const CHAIN_TIMEOUT = milliseconds(4500)

const BODY = 'Action=GetCallerIdentity&Version=2011-06-15'

interface AwsRequest {
  readonly region: string
  readonly nonce: string
  readonly now: EpochMilliseconds
  readonly credentials?: AwsCredentials
  /** How STS and SSO are reached, where the credentials come from them. */
  readonly network: Network
}

/**
 * Signs with credentials found anew each time, so that a later enrollment never uses expired ones: enrollments
 * are rare, and the endpoints keep their own cache. `nonce` is what binds the evidence to the key of the CSR.
 * Throws `AwsEvidenceError`.
 */
export async function gatherAwsEvidence(request: AwsRequest): Promise<AwsEvidence> {
  const { region, nonce, now, network } = request
  if (region === '' || !everyCharacter(region, isRegionCharacter)) {
    throw new AwsEvidenceError(`AWS_REGION is not the name of a region: ${JSON.stringify(region)}`)
  }
  const { accessKeyId, secretAccessKey, sessionToken } = request.credentials ?? (await findCredentials(region, network))
  const url = new URL(`https://sts.${region}.amazonaws.com/`)
  const headers = await sign({
    url: url.href,
    method: 'POST',
    headers: { 'content-type': 'application/x-www-form-urlencoded; charset=utf-8', 'x-muster-nonce': nonce },
    body: BODY,
    accessKeyId,
    secretAccessKey,
    ...(sessionToken !== undefined && { sessionToken }),
    service: 'sts',
    region,
    datetime: basicFormat(now),
    // Without this, content-type stays unsigned.
    allHeaders: true,
  })
  // The signer leaves `host` to whoever sends the request; it is signed and so it is part of the evidence.
  return { mode: 'aws-sts', region, headers: { ...headers, host: url.host }, body: BODY }
}

async function sign(signing: ConstructorParameters<typeof AwsV4Signer>[0]): Promise<Record<string, string>> {
  const { AwsV4Signer } = await import('aws4fetch')
  try {
    return Object.fromEntries((await new AwsV4Signer(signing).sign()).headers)
  } catch {
    // What is thrown for a bad header value quotes the value.
    throw new AwsEvidenceError('the AWS credentials hold a character that no header can carry: look for a line end')
  }
}

/** ISO 8601 in its basic form: `20260301T120000Z`. */
const basicFormat = (time: EpochMilliseconds): string =>
  `${new Date(time).toISOString().slice(0, 19).replaceAll('-', '').replaceAll(':', '')}Z`

/**
 * The SDK's default chain: environment, profile (SSO, process), web identity (IRSA), container (ECS, EKS), IMDS. What it
 * asks over the network obeys the proxy's rules; the container's and the machine's own endpoints it asks directly.
 */
async function findCredentials(region: string, { rules, extraRoots, rootsVariable }: Network): Promise<AwsCredentials> {
  // Loaded on use: the SDK costs more memory than the rest of a runner that never needs it.
  const { fromNodeProviderChain } = await import('@aws-sdk/credential-providers')
  const over = new AbortController()
  const httpsAgent = new ProxyAgent({ rules, roots: extraRoots(), signal: over.signal })
  const chain = fromNodeProviderChain({
    timeout: ENDPOINT_TIMEOUT,
    maxRetries: 0,
    // The chain's own warnings would go to the console beside our JSON lines.
    logger: SILENT,
    // No region here: that would also move SSO away from its own.
    clientConfig: { requestHandler: { httpAgent: directAgent(), httpsAgent } },
    parentClientConfig: { region },
  })
  try {
    return await within(CHAIN_TIMEOUT, chain())
  } catch (error) {
    throw new AwsEvidenceError(
      `no AWS credentials: tried ${sourcesTried().join(', ')}; the SDK says: ${sdkErrorText(error, rootsVariable)}`,
    )
  } finally {
    over.abort()
  }
}

const nothing = (): void => undefined
const SILENT = { trace: nothing, debug: nothing, info: nothing, warn: nothing, error: nothing }

async function within<T>(limit: Milliseconds, work: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const over = new Promise<never>((_, fail) => {
    timer = setTimeout(() => fail(new AwsEvidenceError(`no answer within ${limit / 1000} s`)), limit)
  })
  try {
    return await Promise.race([work, over])
  } finally {
    clearTimeout(timer)
  }
}

/** Names of variables and whether they are set: enough to see which source was meant, and no value but an address. */
function sourcesTried(): string[] {
  const { env } = process
  const set = (name: string): string => `${name} ${env[name] ? 'set' : 'not set'}`
  const disabled = env.AWS_EC2_METADATA_DISABLED && env.AWS_EC2_METADATA_DISABLED !== 'false'
  const container = ['AWS_CONTAINER_CREDENTIALS_RELATIVE_URI', 'AWS_CONTAINER_CREDENTIALS_FULL_URI'].find((n) => env[n])
  return [
    `environment (${set('AWS_ACCESS_KEY_ID')})`,
    `profile and SSO (${env.AWS_PROFILE ? 'AWS_PROFILE set' : 'profile default'})`,
    `web identity (${set('AWS_WEB_IDENTITY_TOKEN_FILE')})`,
    container === undefined
      ? `container (${set('AWS_CONTAINER_CREDENTIALS_FULL_URI')}), instance metadata (${disabled ? 'AWS_EC2_METADATA_DISABLED set' : 'IMDS'})`
      : `container (${container} set)`,
  ]
}

/**
 * The message of the SDK or of AWS. Any other error is named, not quoted: a parser's error quotes what it parsed, a
 * `credential_process`'s its command line.
 */
function sdkErrorText(error: unknown, rootsVariable: string): string {
  if (!(error instanceof Error)) return 'unknown'
  const advice = rootsAdvice(rootsVariable)
  if (isUnknownCa(error)) return `the certificate of AWS ${untrustedText(error)}${advice}`
  if (error instanceof ProxyError) return `${error.message}${error.unknownCa ? advice : ''}`
  const worded = error instanceof AwsEvidenceError || WORDED.includes(error.name) || '$fault' in error
  const quotes = error.message.includes('JSON') || error.message.startsWith('Command failed')
  if (!worded || quotes) return codeOf(error, error.name)
  return error.message.replace(/\s+/g, ' ').slice(0, 300)
}
const WORDED = ['CredentialsProviderError', 'ProviderError', 'TokenProviderError', 'InstanceMetadataV1FallbackError']
