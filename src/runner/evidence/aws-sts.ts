// Makes the evidence of `aws-sts`: a GetCallerIdentity request, signed in headers, that the control plane sends in our
// place.

import type { AwsV4Signer } from 'aws4fetch'
import { everyCharacter, isLowerOrDigit } from '../../protocol/characters.ts'
import { err, ok, type Result } from '../../protocol/result.ts'
import type { EpochMilliseconds } from '../../protocol/time.ts'
import type { AwsCredentials } from './aws-container.ts'
import { credentialFinder } from './aws-credentials.ts'
import { awsFiles } from './aws-files.ts'
import { type EvidenceMode, requires } from './evidence.ts'

export interface AwsEvidence {
  readonly mode: 'aws-sts'
  readonly region: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
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
    const find = credentialFinder()
    return ok({
      guarded: awsFiles((name) => settings.raw(name)),
      modeAt: () => 'aws-sts',
      missingAt: () => null,
      async gather(nonce, now, network) {
        const found = await find(region, network)
        if (!found.ok) return found
        const { credentials, identity } = found.value
        const evidence = await signAwsEvidence({ region, nonce, now, credentials })
        return evidence.ok ? ok({ attestation: { ...evidence.value }, described: { region, ...identity } }) : evidence
      },
    })
  },
}

/** Read by the SDK as they stand; it expands `~/` in the paths of its configuration files, which are not here. */
const SDK_FILES = ['AWS_WEB_IDENTITY_TOKEN_FILE', 'AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE']

const isRegionCharacter = (c: string): boolean => isLowerOrDigit(c) || c === '-'

const BODY = 'Action=GetCallerIdentity&Version=2011-06-15'

interface AwsRequest {
  readonly region: string
  /** What binds the evidence to the key of the CSR. */
  readonly nonce: string
  /** By the control plane's clock. */
  readonly now: EpochMilliseconds
  readonly credentials: AwsCredentials
}

/** The error is one line without any part of the credentials. */
export async function signAwsEvidence({
  region,
  nonce,
  now,
  credentials,
}: AwsRequest): Promise<Result<AwsEvidence, string>> {
  const { accessKeyId, secretAccessKey, sessionToken } = credentials
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
  if (headers === null) {
    return err('the AWS credentials hold a character that no header can carry: look for a line end')
  }
  // The signer leaves `host` to whoever sends the request; it is signed and so it is part of the evidence.
  return ok({ mode: 'aws-sts', region, headers: { ...headers, host: url.host }, body: BODY })
}

/** Null where a header cannot carry a credential: what is thrown for it quotes the value. */
async function sign(signing: ConstructorParameters<typeof AwsV4Signer>[0]): Promise<Record<string, string> | null> {
  const { AwsV4Signer } = await import('aws4fetch')
  try {
    return Object.fromEntries((await new AwsV4Signer(signing).sign()).headers)
  } catch {
    return null
  }
}

/** ISO 8601 in its basic form: `20260301T120000Z`. */
const basicFormat = (time: EpochMilliseconds): string =>
  `${new Date(time).toISOString().slice(0, 19).replaceAll('-', '').replaceAll(':', '')}Z`
